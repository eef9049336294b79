"""A setting that changes nothing is an error: every condition, and every setting of every command by its value."""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from xling.core.commands import help as manual
from xling.core.commands import pipeline
from xling.core.commands.runner import STAGES, load, run_local
from xling.core.errors import UserError
from xling.core.settings import config, schema, unused
from xling.objectives import declared
from xling.objectives.base_settings import CHUNKS

ROOT = Path(__file__).parents[3]
# Settings under which all conditions of a command fail, where its defaults hold some of them.
FAILING = {
    "corpus mono": ["lang=sw", "source=jsonl:x", "dedup=false", "near_dedup=false", "lm.model=none"],
    "corpus parallel": ["source=moses:a+b"],
    "align": ["method=embedding", "checkpoint=x", "src=a", "tgt=b"],
    "corpus langid-eval": ["text.sw=x"],
    "mine": ["index=exact", "margin=absolute", "src_vectors=a", "tgt_vectors=b"],
    "pretrain static": ["start.encoder=x", "updates=1"],
    "umt": ["denoise=none", "collapse.patience=0"],
    "import hf": ["source=/"],
    "import fairseq": ["source=/"],
    "import xlm": ["source=/"],
}
# Of two conditions that exclude each other, the one that the settings above hold.
OTHER = {
    ("bli", "min_seeds"): ["encoder=x"],
    ("align", "checkpoint layer"): ["method=own", "corpus=x"],
    ("corpus codeswitch", "word_rate draw forms sentence_rate"): [],
    ("corpus codeswitch", "alm.*"): ["mode=documents", "source=x"],
    ("corpus codeswitch", "alm.max_rate"): ["alm.rate=0.2"],
    ("corpus codeswitch", "seed"): ["mode=alm"],
    **{
        (command, "model.head_biases"): ["model.plain_head=true"]
        for command in ("pretrain", "finetune mt", "umt")
    },
    **{
        (command, "train.final_lr"): ["train.schedule=inverse_sqrt"]
        for command in ("pretrain", "finetune mt", "umt")
    },
    **{
        (command, names): ["search.beam=1"]
        for command in ("finetune mt", "finetune generate", "umt", "translate", "back-translate")
        for names in ("search.*", "search.length_penalty")
    },
}
CASES = [(command, condition) for command, all_ in unused.CONDITIONS.items() for condition in all_]


def filled(command: str) -> list[str]:
    """Words for the required settings of a command."""
    values = {"pair": "en-sw", "src": "en", "tgt": "sw", "lang": "sw", "pairs": "en-sw", "checkpoints": "x,y"}
    cls = load(STAGES[command].config)
    keys = [key for key in schema.keys(cls) if key.required]
    return [f"{key.name}.en=x" if key.is_open else f"{key.name}={values.get(key.name, 'x')}" for key in keys]


def values_of(key: schema.Key) -> Iterator[str]:
    """Values of a setting that differ from its default, the likelier one first."""
    if key.is_open:
        yield "{en: 1}"
        yield "{weight: 1}"
    elif key.choices:
        yield from (choice for choice in key.choices if choice != key.default)
    elif key.kind == "true or false":
        yield str(not key.default).lower()
    else:
        yield from ("7", "0.4", "x", "70", "head", "50,80", "0", "2h", "swe", "sw")


def given(command: str, words: list[str], key: schema.Key, condition: unused.Condition) -> Any:
    """The settings of a command with another value of one setting, under which a condition does not hold."""
    cls = load(STAGES[command].config)
    own = [word for word in words if word.partition("=")[0] != key.name]
    tried = []
    for value in values_of(key):
        try:
            cfg = config.load(cls, overrides=[*own, f"{key.name}={value}"])
        except UserError as error:
            tried.append(f"{value}: {error}")
        else:
            if any(unused.changed(cfg, key.name)) and not condition.holds(cfg):
                return cfg
    raise AssertionError(f"no value for {command} {key.name}: {tried}")


@pytest.mark.parametrize(
    ("command", "condition"), CASES, ids=lambda each: getattr(each, "names", each).replace(" ", "-")
)
def test_a_setting_without_effect_is_refused_before_anything_is_read(
    command: str, condition: unused.Condition
) -> None:
    words = dict(word.split("=") for word in filled(command))
    more = OTHER.get((command, condition.names), FAILING.get(command, []))
    words |= dict(word.split("=") for word in more)
    whole = [f"{name}={value}" for name, value in words.items()]
    cls = load(STAGES[command].config)
    keys = {key.name: key for key in schema.keys(cls)}
    for name in condition.names.split():
        named = [key for key in keys.values() if key.name == name or _is_part(key.name, name)]
        assert named, name
        for key in named:
            cfg = given(command, whole, key, condition)
            with pytest.raises(UserError, match="changes nothing here: it needs "):
                run_local(command, cfg)


def _is_part(key: str, name: str) -> bool:
    return name.endswith(".*") and key.startswith(name[:-1]) and "." not in key[len(name) - 1 :]


@pytest.mark.parametrize(
    ("objective", "words", "needs"),
    [
        ("umt", {"top_k": "5"}, "sample=true"),
        ("umt", {"temperature": "0.5"}, "sample=true"),
        ("umt", {"own_share": "0.2"}, "own_pieces above 0"),
        ("mbart", {"span_mean": "2", "infill": "0"}, "infill above 0"),
        ("translation", {"back_share": "0.2"}, "back_translated="),
        ("translation", {"tag": "true"}, "back_translated="),
        ("xlco", {"margin": "0.5"}, "negatives=batch"),
        ("xlco", {"fill": "false", "negatives": "batch"}, "negatives=queue"),
        ("xlco", {"normalise": "true", "negatives": "batch"}, "negatives=queue"),
        ("distill", {"temperature": "3", "soft": "0"}, "soft above 0"),
        ("distill", {"teacher_layer": "1", "relations": "0"}, "relations above 0"),
        ("mmlm", {"read_buffer": "3"}, "read_chunk above 0"),
    ],
)
def test_a_setting_of_an_objective_without_effect_is_refused(
    objective: str, words: dict[str, str], needs: str
) -> None:
    settings = config.from_dict(declared.find(objective), words)
    with pytest.raises(UserError, match=f"changes nothing with objectives.{objective}: it needs {needs}"):
        unused.check_conditions((CHUNKS, *settings.conditions), settings, f"with objectives.{objective}")
    plain = config.from_dict(declared.find(objective), {})
    unused.check_conditions((CHUNKS, *plain.conditions), plain)


def test_what_is_given_and_used_passes() -> None:
    cfg = config.load(
        load(STAGES["back-translate"].config), overrides=[*filled("back-translate"), "search.beam=2"]
    )
    unused.check("back-translate", cfg)
    cfg = config.load(load(STAGES["translate"].config), overrides=[*filled("translate"), "search.beam=2"])
    unused.check("translate", cfg)


@functools.cache
def _attributes() -> frozenset[str]:
    """Every name that the code reads as an attribute, or names in a text for getattr."""
    names: set[str] = set()
    for folder in ("xling", "corpora", "eval", "slurm"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute):
                    names.add(node.attr)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    names.add(node.value)
    return frozenset(names)


@pytest.mark.parametrize("command", sorted(STAGES))
def test_every_setting_of_every_command_is_read(command: str) -> None:
    for key in schema.keys(load(STAGES[command].config)):
        assert key.name.rpartition(".")[2] in _attributes(), key.name


def _steps() -> Iterator[tuple[str, str, Any]]:
    for path in sorted((ROOT / "recipes").glob("*.yaml")):
        for scale in ["", *config.read_yaml(path).get("scales", {})]:
            words = [f"scale={scale}"] if scale else []
            if stage := manual.stage_of_recipe(path):
                cls = load(STAGES[stage].config)
                recipe = config.read_yaml(path)
                needed = [
                    word for word in filled(stage) if word.partition("=")[0].partition(".")[0] not in recipe
                ]
                yield path.name, stage, config.load(cls, path, [*needed, *words])
                continue
            plan = pipeline.read(path, words)
            for name, step in plan.steps.items():
                if "heldout" not in str(config.read_yaml(path)):  # which lies in the data of the user
                    yield path.name, step.stage, plan.settings(name)


def test_no_recipe_has_a_setting_without_effect() -> None:
    from xling.eval.rows.suite import suites
    from xling.eval.run import unused as of_evaluation
    from xling.eval.run.plan import expand

    num = 0
    for _, stage, cfg in _steps():
        unused.check(stage, cfg)
        for objectives in [
            *([cfg.objectives] if stage == "pretrain" else []),
            *(phase.objectives for phase in getattr(cfg, "phases", {}).values()),
            *([{"umt": cfg.back, cfg.denoise: cfg.denoise_settings}] if stage == "umt" else []),
        ]:
            for name, given_words in objectives.items():
                words = {key: each for key, each in given_words.items() if key not in declared.MIX_SETTINGS}
                settings = config.from_dict(declared.find(name), words)
                unused.check_conditions((CHUNKS, *settings.conditions), settings, f"with {name}")
        if stage == "eval" and cfg.suites:  # else the reader's own files
            of_evaluation.check(cfg, [suites()[name] for name in expand(cfg.suites)])
        elif stage in ("finetune", "label"):
            of_evaluation.check_fit(cfg, [suites()[cfg.suite]], [cfg.checkpoint])
        num += 1
    assert num > 100


@dataclasses.dataclass(frozen=True)
class _Part:
    beam: int = 5


@dataclasses.dataclass(frozen=True)
class _Settings:
    part: _Part = _Part(beam=4)
    names: tuple[str, ...] = ()


def test_values_are_compared_with_the_default_of_the_part_that_holds_them() -> None:
    assert not [*unused.changed(_Settings(), "part.*")]
    assert [*unused.changed(_Settings(_Part(5)), "part.beam")] == [("part.beam", 5, 4)]
    assert [*unused.changed(_Settings(names=("a",)), "names")] == [("names", ("a",), ())]
