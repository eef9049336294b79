"""The recipes of language adaptation and distillation: what they say, and that they run from text to table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xling import cli
from xling.core.commands import pipeline
from xling.core.output import manifest
from xling.eval.scores.score_file import read_scores

RECIPES = ("adapt_continue", "adapt_vocab", "adapt_madx", "adapt_fit", "distill")
# An update takes milliseconds, and every training is a handful of them.
FEW = ("updates=4", "warmup=1", "valid_every=4", "save_every=4", "batch_tokens=256")
STEPS = {
    "adapt_continue": ("base", "continued"),
    "adapt_vocab": ("base", "embeddings"),
    "adapt_madx": ("base", "english", "adapters"),
    "adapt_fit": ("base",),
    "distill": ("base", "student", "alone"),
}


def settings(name: str, *words: str) -> dict[str, Any]:
    plan = pipeline.read(cli.recipe_path(name), words)
    return {step: plan.settings(step) for step in plan.steps}


@pytest.mark.parametrize("name", RECIPES)
def test_real_data_are_one_word_away(name: str) -> None:
    toy, real = settings(name), settings(name, "scale=real", "data=FOLDER", "lang=eu")
    assert toy.keys() == real.keys()
    assert all("FOLDER/" in paths[0] for paths in real["vocab"].corpora.values())
    assert {"sw", "eu", "yo", "en"} <= real["vocab"].corpora.keys()
    assert all(paths[0].startswith(f"{toy['raw'].out}/") for paths in toy["vocab"].corpora.values())
    shapes = [cfg.model for cfg in real.values() if hasattr(cfg, "objectives")]
    assert len({(m.dim, m.heads, m.ffn_dim) for m in shapes}) == 1 and shapes[0].dim == 192
    suites = [cfg.suites for cfg in real.values() if hasattr(cfg, "suites")]
    assert suites and all(found == ("panx",) for found in suites)


def test_madx_learns_adapters_alone_and_swaps_them() -> None:
    steps = settings("adapt_madx", "lang=tr")
    for name, lang in (("english", "en"), ("adapters", "tr")):
        cfg = steps[name]
        assert (cfg.freeze, cfg.init, cfg.langs) == ("body", steps["base"].out, (lang,))
        assert cfg.model.invertible and cfg.model.lang_adapter == cfg.model.dim // 2
    assert str(steps["task"].checkpoint) == steps["english"].out and steps["task"].fit.task_adapter
    assert (steps["swapped"].task, steps["swapped"].adapters) == (
        str(steps["task"].out),
        steps["adapters"].out,
    )
    assert str(steps["scores"].checkpoint) == steps["swapped"].out


def test_every_way_of_fine_tuning_differs_from_the_plain_one() -> None:
    steps = settings("adapt_fit")
    ways = {name: cfg for name, cfg in steps.items() if hasattr(cfg, "checkpoints")}
    assert len(ways) == 5 and len({str(cfg.fit) for cfg in ways.values()}) == 5
    assert set(steps["report"].runs) == {str(cfg.out) for cfg in ways.values()}
    assert all(cfg.checkpoints == (f"{name}={steps['base'].out}",) for name, cfg in ways.items())


def test_a_student_has_half_of_its_teachers_layers() -> None:
    steps = settings("distill")
    base, student, alone = (steps[name] for name in ("base", "student", "alone"))
    assert (student.model.layers, base.model.layers) == (len(student.init_layers), 4) == (2, 4)
    assert student.objectives["distill"]["teacher"] == student.init == base.out
    assert (alone.model, alone.train, alone.init_layers) == (
        student.model,
        student.train,
        student.init_layers,
    )
    assert steps["int8"].int8 and not steps["scores"].int8


def test_one_language_or_several_have_the_same_budget() -> None:
    steps = settings("mono_or_multi", "data=FOLDER", "lang=eu")
    one, all_of_them = steps["mono"], steps["multi"]
    assert (one.train, one.model, one.objectives) == (
        all_of_them.train,
        all_of_them.model,
        all_of_them.objectives,
    )
    assert one.train.updates == 1000 and steps["vocab"].size == steps["multi_vocab"].size
    assert set(steps["multi_vocab"].corpora) == {"sw", "eu", "fr"} and set(steps["vocab"].corpora) == {"eu"}
    assert steps["vocab"].corpora["eu"] == steps["multi_vocab"].corpora["eu"]
    scores = steps["scores"]
    assert scores.checkpoints == (f"monolingual={one.out}", f"multilingual={all_of_them.out}")
    assert (scores.langs, scores.source, scores.protocol) == (("eu",), "eu", "in_language")
    assert scores.systems == ("pretrained", "random", "ngram") and scores.seeds == (1, 2, 3)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("adapt")


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_runs_from_text_to_table(name: str, out: Path) -> None:
    words = [f"{step}.train.{word}" for step in STEPS[name] for word in FEW]
    small = [
        "raw.num_docs=60",
        "raw.num_pairs=20",
        "raw.num_ner=60",
        "raw.num_nli=20",
        "vocab.size=150",
        "rows=24",
    ]
    small += ["pieces=80"] if name == "adapt_vocab" else []
    assert cli.main(["run", name, f"out={out}", *small, *words]) == 0
    tables = {
        "adapt_continue": ["continue/sw-toy_ner"],
        "adapt_vocab": ["vocab-sw/toy_ner-scores"],
        "adapt_madx": ["madx/sw-toy_ner-scores"],
        "adapt_fit": ["fit-toy_ner/plain", "fit-toy_ner/task_adapter"],
        "distill": ["distill/toy_ner", "distill/toy_ner-int8"],
    }
    for table in tables[name]:
        scores = read_scores(out / table / "tables" / "scores.json")
        assert "sw" in {score.lang for score in scores} and all(score.synthetic for score in scores)
    if name == "adapt_madx":
        assert manifest.read(out / "madx/sw").counts["frozen"]["parameters"] > 0
