"""Settings that would change nothing beside the others: each is an error, since who gives one expects an effect.

`CONDITIONS` says for each command which settings need what. A value at its default is never refused, as nobody can tell
that it was given.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from xling.core.errors import UserError
from xling.core.settings import config


class Condition(NamedTuple):
    """Settings that have an effect under one condition alone.

    Attributes:
        names: dotted names, separated by spaces; ``near.*`` means all settings of a part.
        holds: whether they have an effect.
        needs: the condition in words, after "needs".
    """

    names: str
    holds: Callable[[Any], Any]
    needs: str


_LOCAL = ("text:", "lines:", "jsonl:", "csv:", "parquet:", "docx:", "odt:", "epub:", "eaf:", "xlsx:")
"""Sources of documents that only read files."""


def _fetches(cfg: Any) -> bool:
    return not cfg.source or not all(uri.startswith(_LOCAL) for uri in cfg.source)


def _schemes(*schemes: str) -> Callable[[Any], bool]:
    return lambda cfg: any(uri.startswith(schemes) for uri in cfg.source)


def _search(holds: Callable[[Any], Any] = lambda _: True, needs: str = "") -> tuple[Condition, ...]:
    """Return the conditions of the settings of a search, which itself may need something."""
    own = (
        Condition(
            "search.top_k search.temperature search.seed", lambda c: c.search.sample, "search.sample=true"
        ),
        Condition(
            "search.length_penalty", lambda c: c.search.beam > 1 and not c.search.sample, "search.beam from 2"
        ),
    )
    return (Condition("search.*", holds, needs), *own) if needs else own


_TRAINING = (
    Condition("train.decay train.decay_shape", lambda c: c.train.schedule == "wsd", "train.schedule=wsd"),
    Condition(
        "train.final_lr", lambda c: c.train.schedule in ("cosine", "wsd"), "train.schedule=cosine or wsd"
    ),
    Condition("train.momentum", lambda c: c.train.optimizer == "muon", "train.optimizer=muon"),
    Condition("train.batch_first", lambda c: c.train.batch_warmup, "train.batch_warmup above 0"),
    Condition(
        "train.batch_warmup",
        lambda c: c.train.accumulate > c.train.batch_first,
        "train.accumulate above train.batch_first",
    ),
    Condition("model.global_theta", lambda c: c.model.positions == "rope", "model.positions=rope"),
    Condition(
        "model.local_theta",
        lambda c: c.model.positions == "rope" and c.model.attention != "global",
        "model.positions=rope and model.attention=local:W/global:K",
    ),
    Condition("model.head_biases", lambda c: not c.model.plain_head, "model.plain_head=false"),
    Condition("train.snapshot_state", lambda c: c.train.snapshots, "train.snapshots="),
)
_ENCODER = Condition("layer pooling", lambda c: c.checkpoint, "checkpoint=")
_VIA = Condition("via", lambda c: c.via not in (c.src, c.tgt), "another language than src= and tgt=")
_CROSS = Condition("cross", lambda c: c.decoder, "encoder= and decoder=")
_IMPORT = (
    Condition("init", lambda c: c.extend_vocab, "extend_vocab="),
    Condition("revision", lambda c: not c.source.exists(), "a model on the Hub, not a folder here"),
)

CONDITIONS: dict[str, tuple[Condition, ...]] = {
    "corpus mono": (
        Condition("others", lambda c: "," in c.lang or c.lang == "all", "several languages in lang="),
        Condition("dump", lambda c: not c.source, "no source="),
        Condition(
            "size",
            lambda c: not c.source or c.reads_index or _schemes("cc:", "hf:")(c),
            "a source cc:, hf: or cc-index:",
        ),
        Condition(
            "extract",
            lambda c: c.reads_index or _schemes("warc:", "html:")(c),
            "a source warc:, cc-index: or html:",
        ),
        Condition("time hosts neighbours contact", lambda c: c.reads_index, "a source cc-index:"),
        Condition(
            "cache",
            lambda c: _fetches(c) or c.lm.model == "auto",
            "a source that is downloaded, or lm.model=auto",
        ),
        Condition("num_connections", _fetches, "a source that is downloaded"),
        Condition("dedup_scope", lambda c: c.dedup, "dedup=true"),
        Condition("dedup_group", lambda c: c.dedup and c.dedup_scope == "group", "dedup_scope=group"),
        Condition("near.*", lambda c: c.near_dedup, "near_dedup=true"),
        Condition(
            "lm.min_chars lm.max_chars lm.order lm.pieces", lambda c: c.lm.model == "auto", "lm.model=auto"
        ),
        Condition(
            "lm.percentiles lm.keep lm.max_perplexity", lambda c: c.lm.model != "none", "a model in lm.model="
        ),
    ),
    "corpus parallel": (
        _ENCODER,
        Condition("size cache", lambda c: not c.source or _schemes("opus:")(c), "a source opus:"),
    ),
    "corpus bitext": (_ENCODER,),
    "corpus langid-eval": (
        Condition("precision threshold", lambda c: c.prior, "prior.LANG="),
        Condition("labels", lambda c: c.labelled or c.model, "labelled= or model="),
    ),
    "align": (
        Condition("checkpoint layer", lambda c: c.method == "embedding", "method=embedding"),
        Condition("aligner.*", lambda c: c.method != "embedding", "method=own"),
    ),
    "mine": (
        _ENCODER,
        Condition("candidates probes", lambda c: c.index != "exact", "index=clusters or auto"),
        Condition("neighbours", lambda c: c.margin != "absolute", "margin=ratio or distance"),
    ),
    "corpus codeswitch": (
        Condition("word_rate draw forms sentence_rate", lambda c: c.mode == "dictionary", "mode=dictionary"),
        Condition("max_sentences", lambda c: c.mode == "documents", "mode=documents"),
        Condition("alm.*", lambda c: c.mode == "alm", "mode=alm"),
        Condition("alm.max_rate", lambda c: c.alm.rate is None, "no alm.rate="),
        Condition("seed", lambda c: c.mode != "alm", "mode=dictionary or documents; else alm.seed="),
    ),
    "binarize": (Condition("documents", lambda c: c.pairs or c.rows, "pairs.SRC-TGT="),),
    "corpus halves": (Condition("seed", lambda c: c.cut == "random", "cut=random"),),
    "pretrain": (
        *_TRAINING,
        _CROSS,
        Condition("init_layers", lambda c: c.init, "init="),
        Condition(
            "mix",
            lambda c: len(c.objectives) > 1 or any(len(p.objectives) > 1 for p in c.phases.values()),
            "several objectives",
        ),
    ),
    "pretrain static": (
        Condition(
            "start.rounds start.fit_rounds start.ridge start.mass",
            lambda c: not c.start.encoder,
            "no start.encoder=",
        ),
    ),
    "finetune mt": (
        *_TRAINING,
        _CROSS,
        *_search(lambda c: c.test, "test.SRC-TGT="),
        Condition("precision", lambda c: c.test, "test.SRC-TGT="),
    ),
    "finetune generate": _search(lambda c: c.test, "test.LANG="),
    "umt": (
        *_TRAINING,
        _CROSS,
        *_search(lambda c: c.test, "test.SRC-TGT="),
        Condition("denoise_settings", lambda c: c.denoise != "none", "denoise=dae or mass"),
        Condition("collapse.after", lambda c: c.collapse.patience, "collapse.patience above 0"),
        Condition(
            "collapse.copied collapse.in_language collapse.shortest collapse.longest collapse.distinct",
            lambda c: c.collapse.patience and c.collapse.after < c.train.updates,
            "collapse.patience above 0 and collapse.after below train.updates",
        ),
    ),
    "translate": (_VIA, Condition("block", lambda c: c.join, "join=true"), *_search()),
    "back-translate": (_VIA, *_search()),
    "bli": (
        Condition("cues.encoder", lambda c: c.encoder, "encoder="),
        Condition("min_seeds", lambda c: not c.encoder, "no encoder="),
    ),
    "label": (
        Condition("per_class lines", lambda c: c.text, "text="),
        Condition("fit.seed", lambda _: False, "seed= in its place"),
    ),
    "export fairseq": (Condition("scores pooling", lambda _: False, "xling export hf"),),
    "import hf": _IMPORT,
    "import fairseq": _IMPORT,
    "import xlm": _IMPORT,
}


def check(command: str, cfg: Any) -> None:
    """Reject a setting of a command that is not at its default and has no effect beside the others.

    Raises:
        UserError: the first such setting, with what it needs.
    """
    check_conditions(CONDITIONS.get(command, ()), cfg)


def check_conditions(conditions: Iterable[Condition], cfg: Any, where: str = "here") -> None:
    """Reject a setting that is not at its default under a condition that does not hold (UserError)."""
    for condition in conditions:
        if not condition.holds(cfg):
            refuse(cfg, condition.names, condition.needs, where)


def refuse(cfg: Any, names: str, needs: str, where: str = "here") -> None:
    """Raise UserError for the first of some settings that is not at its default; see `Condition`."""
    for name in names.split():
        for key, value, default in changed(cfg, name):
            raise UserError(
                f"{key}={_text(value)} changes nothing {where}: it needs {needs}",
                f"{key}={_text(default)}, the default" if default is not dataclasses.MISSING else "",
                "leave it out",
            )


def changed(cfg: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield (setting, value, default) of a setting, or of a whole part (``near.*``), where value and default differ."""
    head, _, rest = name.partition(".")
    item = next(item for item in dataclasses.fields(cfg) if item.name == head)
    default, value = config.default_of(item), getattr(cfg, head)
    if not rest:
        names = [("", value, default)]
    else:
        inner = [each.name for each in dataclasses.fields(value) if each.init] if rest == "*" else [rest]
        names = [(f".{each}", getattr(value, each), getattr(default, each)) for each in inner]
    yield from ((f"{head}{after}", *both) for after, *both in names if both[0] != both[1])


def _text(value: Any) -> str:
    plain = config.to_dict(value)
    if isinstance(plain, bool | None):
        return str(plain).lower()
    return ",".join(map(str, plain)) if isinstance(plain, list | dict) else str(plain)
