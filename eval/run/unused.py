"""Settings of evaluation and fine-tuning that would change nothing for the suites, systems and models of a run.

See `xling.core.settings.unused`, which tells those that need another setting.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from xling.core.commands.inputs import HUB_PREFIX, STATIC_FILE
from xling.core.errors import UserError
from xling.core.settings.unused import refuse
from xling.core.settings.values import named_path
from xling.eval.kinds.retrieval import Retrieval
from xling.eval.kinds.similarity import Similarity
from xling.eval.rows.protocols import PROTOCOLS
from xling.eval.rows.suite import Suite
from xling.eval.run.settings import EvalConfig
from xling.models.files.model_folder import has_head
from xling.transfer.checks import features_of

STATIC_TASKS = ("classify", "pair", "tag", "intent_slots")
"""Tasks of `xling.transfer.static_system.HEADS`, which imports torch."""
JOINED_TASKS = ("", "classify", "pair", "tag")
"""Tasks that the system ``joined`` answers, and suites that are answered from vectors."""
WITHOUT_MODEL = ("majority", "ngram", "dictionary")
_CLASSES, _PAIRS = {"classify"}, {"pair", "choice"}
_WORDS, _TAGS, _WRITING = {"tag"}, {"tag", "intent_slots"}, {"generation", "mt"}
_OF_ENCODERS = (
    "fit.method fit.strength fit.teacher_steps fit.old_text fit.old_rows "
    "fit.freeze_embeddings fit.freeze_layers fit.label_smoothing fit.switch fit.layer_decay "
    "fit.unfreeze_epochs fit.task_adapter fit.layers fit.adversary"
)
_OF_UPDATES = f"{_OF_ENCODERS} fit.lr fit.epochs fit.batch_rows fit.freeze".replace("fit.layers ", "")
"""What nothing reads if the encoder stays as it is under ``fit.text_features=neighbours``."""
_OF_DEEP_MODELS = "fit.lr fit.batch_rows fit.max_length fit.precision fit.text_to_text"


def check_fit(cfg: Any, suites: Sequence[Suite], checkpoints: Iterable[Path]) -> None:
    """Reject settings ``fit.*`` that no fine-tuning on these suites reads.

    Args:
        checkpoints: the models; if none is named, any kind.

    Raises:
        UserError: the first such setting, or a suite that a model cannot be fine-tuned on.
    """
    tasks, folders = {suite.task for suite in suites}, [Path(path) for path in checkpoints]
    where = f"for {', '.join(suite.name for suite in suites)}"
    is_static = [(folder / STATIC_FILE).is_file() for folder in folders if folder.is_dir()] or [True, False]
    are_deep, is_any_static = not all(is_static), any(is_static)
    if any((folder / STATIC_FILE).is_file() for folder in folders):
        _check_static(suites)
    for names, holds, needs in (
        (
            "fit.freeze",
            tasks & _WRITING or cfg.fit.text_to_text or (cfg.fit.freeze == "encoder" and are_deep),
            "a suite whose answers are written, and a model with a decoder"
            if cfg.fit.freeze == "decoder"
            else "an encoder with layers; this one is static",
        ),
        (_OF_ENCODERS, tasks - _WRITING, "a suite of labels, and an encoder"),
        (
            _OF_ENCODERS + " fit.pair_features fit.text_features",
            not cfg.fit.text_to_text,
            "fit.text_to_text=false",
        ),
        (
            "fit.text_to_text",
            tasks & (_CLASSES | {"pair"}),
            "a suite of texts or pairs of texts with one class",
        ),
        (f"{_OF_ENCODERS} {_OF_DEEP_MODELS}", are_deep, "an encoder with layers; this one is static"),
        ("fit.switch_rate", cfg.fit.switch, "fit.switch.LANG="),
        ("fit.adversary_reversal fit.adversary_form", cfg.fit.adversary, "fit.adversary=SHARDS"),
        (
            "fit.pair_features",
            tasks & _PAIRS and are_deep,
            "a suite of pairs of texts, and an encoder with layers",
        ),
        (
            "fit.text_features",
            tasks & _CLASSES and are_deep,
            "a suite of classes, and an encoder with layers",
        ),
        (
            _OF_UPDATES,
            cfg.fit.text_features != "neighbours" or tasks - _CLASSES,
            "other fit.text_features than neighbours, under which no weight of the encoder learns",
        ),
        (
            "fit.project",
            tasks & _WORDS or (tasks & _TAGS and is_any_static),
            "a suite of tags, or one of intents with slots and a static encoder",
        ),
    ):
        if not holds:
            refuse(cfg, names, needs, where)


def _check_static(suites: Sequence[Suite]) -> None:
    for suite in suites:
        if suite.task not in STATIC_TASKS:
            raise UserError(
                f"{suite.name} has rows that a static encoder cannot answer",
                f"rows of {', '.join(STATIC_TASKS)}",
                "give an encoder with layers",
            )


def check_joined(suites: Sequence[Suite], checkpoint: Path, setting: str) -> None:
    """Reject a model without features, and suites that it and its static encoder do not answer together."""
    if checkpoint.is_dir():  # an earlier step of a pipeline may make it
        features_of(checkpoint, setting)
    for suite in suites:
        if suite.task not in JOINED_TASKS:
            raise UserError(
                f"{setting} on {suite.name}",
                "suites of classes, pairs, tags or nearest texts",
                f"leave {suite.name} or {setting} out",
            )


def _check_joined(cfg: EvalConfig, suites: Sequence[Suite], folders: Sequence[Path]) -> None:
    if cfg.pooling == "joined":
        for folder in filter(Path.is_dir, folders):
            features_of(folder, "pooling=joined")
    if "joined" in cfg.systems:
        check_joined(suites, folders[0], "systems=joined")
        if (cfg.layer, cfg.pooling) != (-1, "mean"):
            raise UserError(
                f"systems=joined with layer={cfg.layer} pooling={cfg.pooling}", "layer=-1 pooling=mean"
            )


def check(cfg: EvalConfig, suites: Sequence[Suite]) -> None:
    """Reject settings of ``xling eval`` that no suite, system or model of it reads.

    Raises:
        UserError: the first such setting.
    """
    where = f"for {', '.join(suite.name for suite in suites)}"
    tuned = [suite for suite in suites if suite.task and suite.shape.is_tuned]
    from_vectors = [suite for suite in suites if not suite.task]
    folders = [Path(each) for each in _folders(cfg)]
    _check_joined(cfg, suites, folders)
    with_model = [system for system in cfg.systems if system not in WITHOUT_MODEL]
    is_deep = not folders or not all((folder / STATIC_FILE).is_file() for folder in folders)
    is_ready = folders and all(map(has_head, folders))
    protocol = PROTOCOLS[cfg.protocol]
    writes = (
        any(suite.task in _WRITING for suite in suites)
        or cfg.fit.text_to_text
        or (cfg.translator and protocol.translates)
    )
    for names, holds, needs in (
        ("checkpoint checkpoints", with_model, f"a system with a model beside {', '.join(WITHOUT_MODEL)}"),
        ("dictionary", "dictionary" in cfg.systems, "systems=dictionary"),
        (
            "source train_split train_rows train_with" + ("" if protocol.retrieval_metrics else " protocol"),
            tuned,
            "a suite that models are fine-tuned on",
        ),
        ("shots", protocol.train_on == "shots", "protocol=few_shot"),
        (
            "translator",
            protocol.translates,
            "protocol=translate_train, translate_train_all or translate_test",
        ),
        ("search.*", writes, "a suite whose answers are written, translator= or fit.text_to_text=true"),
        ("layer pooling", from_vectors and with_model, "a suite that is answered from vectors, and a model"),
        (
            "precision",
            from_vectors and with_model and is_deep,
            "a suite that is answered from vectors, and an encoder with layers",
        ),
        ("centred", from_vectors, "a suite that is answered from vectors"),
        (
            "distance",
            [s for s in from_vectors if not isinstance(s.shape, Similarity)],
            "a suite of nearest texts",
        ),
        ("int8", with_model and is_deep, "an encoder with layers"),
        ("fit.seed", False, "seeds= in its place"),
        ("fit.* select seeds", tuned and with_model and not is_ready, "a model that is fine-tuned here"),
    ):
        if not holds:
            refuse(cfg, names, needs, where)
    if protocol.retrieval_metrics:
        _check_plain_cosine(cfg, suites)
    if tuned:
        check_fit(cfg, tuned, folders)


def _check_plain_cosine(cfg: EvalConfig, suites: Sequence[Suite]) -> None:
    """Reject what is not in a protocol of retrieval by plain cosine.

    Raises:
        UserError: another suite, or a setting that changes the similarity.
    """
    others = [suite.name for suite in suites if suite.kind != Retrieval.name]
    changed = [
        f"{name}={getattr(cfg, name)}"
        for name, plain in (("distance", "cosine"), ("centred", False), ("match", 0))
        if getattr(cfg, name) != plain
    ]
    if others or changed:
        raise UserError(
            f"protocol={cfg.protocol} is given with {', '.join([*others, *changed])}",
            "suites of retrieval, by plain cosine",
            "leave these out, or the protocol",
        )


def _folders(cfg: EvalConfig) -> list[str]:
    """Return the folders of the models, without those of a hub, whose kind is not known yet."""
    given = [cfg.checkpoint, *(named_path(item)[1] for item in cfg.checkpoints)]
    return [str(path) for path in given if path and not str(path).startswith(HUB_PREFIX)]
