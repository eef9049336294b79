"""Every named recipe resolves, has its paper's shape, and trains at its tiny scale."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from xling import cli
from xling.core.commands import pipeline
from xling.core.errors import UserError
from xling.core.output.command_result import Answer
from xling.core.settings import config
from xling.models.files import model_weights
from xling.objectives import OBJECTIVES
from xling.training import assemble, checks, train
from xling.training.settings import PretrainConfig

NAMED = (
    "mbert", "xlm_mlm", "xlm_mlm_tlm", "xlmr_base", "xlmr_large", "unicoder", "alm", "infoxlm_base", "hictl", "ernie_m",
    "mass", "mbart25_base", "mbart_large", "mt5_small", "laser",
    "modernbert_base", "mmbert_small", "mmbert_base",
)  # fmt: skip
# Layers, width, objectives: the papers' tables.
SHAPES = {
    "mbert": (12, 768, {"mmlm"}),
    "xlm_mlm": (12, 1024, {"mmlm"}),
    "xlm_mlm_tlm": (12, 1024, {"mmlm", "tlm"}),
    "xlmr_base": (12, 768, {"mmlm"}),
    "xlmr_large": (24, 1024, {"mmlm"}),
    "unicoder": (12, 1024, {"mmlm", "tlm", "clwr", "clpc", "xmlm"}),
    "alm": (12, 1024, {"alm"}),
    "infoxlm_base": (12, 768, {"mmlm", "tlm", "xlco"}),
    "hictl": (12, 768, {"mmlm", "tlm", "hictl"}),
    "ernie_m": (12, 768, {"mmlm", "tlm", "camlm", "btmlm"}),
    "mass": (6, 1024, {"mass"}),
    "mbart25_base": (6, 768, {"mbart"}),
    "mbart_large": (12, 1024, {"mbart"}),
    "mt5_small": (8, 512, {"span_corruption"}),
    "laser": (5, 1024, {"translation"}),
    "modernbert_base": (22, 768, {"mmlm"}),
    "mmbert_small": (22, 384, {"mmlm"}),
    "mmbert_base": (22, 768, {"mmlm"}),
}


@pytest.mark.parametrize("name", NAMED)
def test_resolves_at_both_scales(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["scale=tiny"]):
        assert cli.main(["config", "pretrain", f"{name}.yaml", "data=shards", "out=model", *words]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert (shown["data"], shown["out"]) == ("shards", "model")
        layers, dim, objectives = SHAPES[name]
        assert set(shown["objectives"]) == objectives <= set(OBJECTIVES)
        assert (shown["model"]["layers"], shown["model"]["dim"]) == ((4, 128) if words else (layers, dim))
        for settings in shown["objectives"].values():
            assert int(settings["tokens_per_sample"]) <= shown["model"]["max_positions"]
        assemble.fairseq_config(config.from_dict(PretrainConfig, shown, name), Path("unused"))


LIKE_ANOTHER = {
    "xlm_mlm", "xlm_mlm_tlm", "xlmr_base", "xlmr_large", "mbart25_base", "modernbert_base", "mmbert_small",
}  # fmt: skip
"""Recipes with the objectives of another one; they are built and not trained."""


@pytest.mark.parametrize("name", NAMED)
def test_trains_at_its_tiny_scale(name: str, bitext: Path, tmp_path: Path) -> None:
    words = [f"data={bitext}", f"out={tmp_path}/model", "scale=tiny", "train.updates=2", "train.warmup=1"]
    words.append("train.batch_tokens=512")
    cfg = config.load(PretrainConfig, cli.recipe_path(name), words)
    if cfg.phases:
        cfg = replace(cfg, phases={key: replace(phase, updates=1) for key, phase in cfg.phases.items()})
    if name in LIKE_ANOTHER:
        checks.check(cfg)
        assemble.build_trainer(cfg, tmp_path)
        return
    made: Any = train.run(cfg)
    assert made.counts["updates"] == max(2, len(cfg.phases))
    assert made.counts["skipped_updates"] == 0
    assert (tmp_path / "model" / "model.pt").is_file()


def test_a_dry_run_prints_the_plan_and_leaves_nothing(
    bitext: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"data={bitext}", f"out={tmp_path}/model", "scale=tiny", "--dry-run"]
    assert cli.main(["pretrain", "infoxlm_base.yaml", *words]) == 0
    shown = capsys.readouterr().out
    heads = [line.split()[0] for line in shown.splitlines() if not line.startswith(" ")]
    assert heads == ["model", "data", "training", "operations", "memory", "speed", "time"]
    for name in ("mmlm en", "mmlm ar", "mmlm th", "tlm en-ar", "xlco en-th"):
        assert name in shown
    assert not list(tmp_path.iterdir())


def test_a_dry_run_counts_operations_and_tokens(bitext: Path, tmp_path: Path) -> None:
    words = [f"data={bitext}", f"out={tmp_path}/model", "scale=tiny", "dry_run=true", "model.precision=fp32"]
    shown = train.run(config.load(PretrainConfig, cli.recipe_path("mbert"), words))
    assert isinstance(shown, str)
    mflop = float(re.search(r"operations ([\d.]+) MFLOP", shown)[1])  # type: ignore[index]
    layer = 4 * 128**2 + 2 * 128 * 512
    attention = 2 * 128 * 128  # scores and mixture of 128 positions
    wanted = 3 * 2 * 4 * (layer + attention) / 1e6
    assert mflop == pytest.approx(wanted, rel=0.05)
    pattern = r"batches, ([\d,]+) tokens[\s\S]*: ([\d,]+) tokens, ([\d.]+) epochs"
    an_epoch, total, epochs = (float(n.replace(",", "")) for n in re.findall(pattern, shown)[0])
    assert total == pytest.approx(epochs * an_epoch, rel=0.2)


def test_monotrans_resolves_as_a_pipeline_of_four_steps(tmp_path: Path) -> None:
    plan = pipeline.read(cli.recipe_path("monotrans"), [f"out={tmp_path}"])
    settings = {name: plan.settings(name) for name in plan.steps}
    assert settings["embeddings"].init == settings["body"].out == str(tmp_path / "body")
    assert settings["embeddings"].freeze == "body"
    assert settings["embeddings"].model == settings["body"].model
    assert settings["task"].fit.freeze_embeddings
    assert settings["swapped"].embeddings == settings["embeddings"].out
    assert str(settings["scores"].checkpoint) == settings["swapped"].out


def test_xnlg_runs_in_two_stages_and_leaves_the_encoder_bit_for_bit(bitext: Path, tmp_path: Path) -> None:
    few = [f"stage{i}.train.{word}" for i in (1, 2) for word in ("updates=2", "warmup=1")]
    words = [f"data={bitext}", f"out={tmp_path}", "scale=tiny", *few]
    plan = pipeline.read(cli.recipe_path("xnlg"), words)
    settings = {name: plan.settings(name) for name in plan.steps}
    assert list(settings) == ["stage1", "stage2"]
    first, second = (train.run(cfg) for cfg in settings.values())
    assert second.counts["frozen"]["parameters"] > 0
    before, _ = model_weights.load_model(tmp_path / "stage1")
    after, symbols = model_weights.load_seq2seq(tmp_path / "stage2")
    ours, theirs = after.encoder.state_dict(), before.encoder.state_dict()
    assert (len(before.encoder.layers), len(after.encoder.layers)) == (4, 3)
    for name, weight in theirs.items():
        if name.startswith("layers.3."):
            continue  # of the four layers of stage 1 the lowest three are kept
        assert torch.equal(ours[name][: len(weight)], weight), name
    assert len(after.decoder.layers) == 2 and symbols.langs == tuple(first.counts["langs"])


def test_xnlg_has_the_papers_sizes() -> None:
    plan = pipeline.read(cli.recipe_path("xnlg"))
    first, second = (plan.settings(name) for name in ("stage1", "stage2"))
    assert (first.model.layers, second.model.layers, second.model.decoder_layers) == (12, 10, 6)
    assert first.model.heads == second.model.heads == 16 and second.init_layers == tuple(range(10))
    assert second.freeze == "encoder" and second.init == first.out
    assert second.objectives["dae"]["weight"] == "0.5"
    with pytest.raises(UserError, match="unknown scale 'small'; valid: tiny"):
        pipeline.read(cli.recipe_path("xnlg"), ["scale=small"])


@pytest.mark.parametrize("start", ["mlm", "mass", "mbart"])
def test_a_start_adds_pre_training_and_nothing_else(start: str) -> None:
    words = ["data=d", "out=o", "tgt=de"]
    bare, started = (
        pipeline.read(cli.recipe_path(name), words) for name in ("umt_multi30k", f"umt_multi30k_{start}")
    )
    assert set(started.steps) - set(bare.steps) == {"start"} and started.steps["umt"].after == (
        "words",
        "start",
    )
    for name in bare.steps:
        ours, theirs = bare.settings(name), started.settings(name)
        if name == "umt":
            assert (ours.checkpoint, theirs.checkpoint) == ("", started.settings("start").out)
            theirs = replace(theirs, checkpoint="")
        assert ours == theirs


@pytest.mark.parametrize(
    ("recipe", "words", "objective", "style"),
    [
        ("umt_multi30k_mass", [], "mass", "mass"), ("umt_multi30k_mass", ["style=xling"], "mass", "xling"),
        ("mt_multi30k", [], "mass", "mass"), ("mt_multi30k", ["style_mass=xling"], "mass", "xling"),
        ("mt_multi30k", ["start=mbart"], "mbart", "xling"), ("mt_en_sw", [], "mass", "mass"),
        ("umt_multi30k_mbart", [], "mbart", "xling"), ("umt_en_sw", [], "mbart", "xling"),
    ],
)  # fmt: skip
def test_a_start_has_the_noise_that_its_recipe_tells(
    recipe: str, words: list[str], objective: str, style: str
) -> None:
    made = pipeline.read(cli.recipe_path(recipe), ["data=d", *words]).settings("start").objectives
    assert list(made) == [objective] and made[objective]["join"] == "false"
    assert made[objective].get("style", "xling") == style
    if objective == "mbart":  # not the whole noise of mBART, and the text says so
        told = cli.recipe_path(recipe).read_text(encoding="utf-8").partition("vars:")[0]
        assert "infilling" in told and "permut" in told


@pytest.mark.parametrize("start", ["mlm", "mass", "mbart"])
def test_the_variant_with_more_text_changes_the_start_alone(start: str) -> None:
    words = ["data=d", "out=o", "tgt=de"]
    plain, more = (
        pipeline.read(cli.recipe_path(f"umt_multi30k_{start}"), [*words, *scale])
        for scale in ((), ("scale=mono",))
    )
    assert set(more.steps) - set(plain.steps) == {"more"}
    changed = {name for name in plain.steps if plain.settings(name) != more.settings(name)}
    assert changed == {"start"} and more.settings("start").data == str(more.settings("more").out) == "o/more"
    assert more.settings("more").corpora["de"] == ("o/text/de.txt", "d/mono/cv.de.txt.gz")
    assert "d/mono" not in str([plain.settings(name) for name in plain.steps])


@pytest.mark.parametrize("encoder", ["", "runs/hour/encoder"])
def test_translation_of_news_reads_the_encoder_in_words_and_pieces_alone(encoder: str) -> None:
    plan = pipeline.read(cli.recipe_path("umt_en_sw"), ["data=d", f"encoder={encoder}"])
    assert plan.settings("words").encoder == plan.settings("start").init_pieces == encoder
    others = {name: plan.settings(name) for name in plan.steps if name not in ("words", "start")}
    assert "hour" not in str(others)


def test_swahili_news_changes_the_text_and_nothing_else() -> None:
    words = ["data=d", "out=o", "pairs=7", "tgt=sw"]
    captions, news = (pipeline.read(cli.recipe_path(name), words) for name in ("mt_multi30k", "mt_en_sw"))
    assert "multi30k" not in str([news.settings(name) for name in news.steps])
    for name in ("start", "scratch", "tuned"):
        ours, theirs = news.settings(name), captions.settings(name)
        assert (ours.model, ours.train, ours.data, ours.out) == (
            theirs.model,
            theirs.train,
            theirs.data,
            theirs.out,
        )
    assert list(news.settings("tuned").test) == ["en-sw", "sw-en"]
    assert news.settings("text").corpora == news.settings("vocab").corpora


@pytest.fixture(scope="module")
def ladder() -> Any:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "ladder.py"
    spec = importlib.util.spec_from_file_location("ladder", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_every_rung_of_the_ladder_resolves(ladder: Any, tmp_path: Path) -> None:
    for name in (*(f"tatoeba/{lang}-eng.eng" for lang in ("deu", "fra", "swh")), "ntrex/ntrex.eng.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for rung, added in ladder.RUNGS.items():
        words = [*ladder.words_of(rung), "seed=3", f"data={tmp_path}", f"out={tmp_path}"]
        plan = pipeline.read(ladder.RECIPE, words)
        assert plan.settings("model").init == "" and plan.settings("shards").vocab == f"{tmp_path}/vocab"
        plan = pipeline.read(ladder.RECIPE, [*words, "start=a", "pieces=b"])
        assert plan.settings("model").init == "a" and plan.settings("shards").vocab == "b"
        settings = {name: plan.settings(name) for name in plan.steps}
        model = settings["model"]
        assert set(model.objectives) == {"mmlm", *added} and model.seed == 3
        assert model.out == f"{tmp_path}/{rung}-3/model" == str(settings["ner"].checkpoint)
        assert settings["ner"].seeds == (3,)
        assemble._task_of(model)  # the settings of its objectives are known


def test_the_plan_of_a_ladder_makes_the_shards_and_keeps_the_recipes_settings(
    ladder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[str, Any]] = []

    def record(stage: str, cfg: Any) -> Answer:
        seen.append((stage, cfg))
        return Answer("model x\nspeed fast\ntime 1 min", {})

    monkeypatch.setattr(ladder, "run_local", record)
    for name in (*(f"tatoeba/{lang}-eng.eng" for lang in ("deu", "fra", "swh")), "ntrex/ntrex.eng.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    words = [str(tmp_path), "plan", f"out={tmp_path}/out", "rungs=tlm", "seeds=1,2", "model.train.updates=7"]
    assert ladder.main(words) == 0
    made = [stage for stage, _ in seen]
    assert (
        made[:3] == ["corpus parallel"] * 3 and made[-2:] == ["binarize", "pretrain"] and "eval" not in made
    )
    shards, model = seen[-2][1], seen[-1][1]
    assert str(shards.out) == model.data and model.dry_run and model.train.updates == 7
    written = yaml.safe_load(ladder.RECIPE.read_text())["steps"]["model"]["config"]["objectives"]["mmlm"]
    assert {k: float(v) for k, v in model.objectives["mmlm"].items()} == written
    assert capsys.readouterr().out == "tlm (x 2 seeds):\n  speed fast\n  time 1 min\n"


def test_a_mistake_on_the_ladder_is_one_line(
    ladder: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = f"out={tmp_path}/out"
    assert ladder.main([str(tmp_path), "plan", out, "rungs=tml"]) == 2
    assert ladder.main([str(tmp_path), "plan", out, "rungs=tlm"]) == 2
    with pytest.raises(SystemExit) as stopped:
        ladder.main([str(tmp_path), out, "rungs=tlm", "seeds=1"])
    assert stopped.value.code == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 3 and lines[0].startswith("ladder: unknown rung 'tml'; fix: did you mean 'tlm'")
    assert all("no held-out file at" in line for line in lines[1:])


def test_the_ladder_is_told_by_rung(ladder: Any, tmp_path: Path) -> None:
    def score(system: str, suite: str, lang: str, value: float) -> dict[str, Any]:
        return {"system": system, "suite": suite, "lang": lang, "value": value}

    for seed, value in (("1", 10.0), ("2", 14.0)):
        parts = {
            "retrieval": [
                score("pretrained", "ntrex", "de-en", value),
                score("pretrained", "ntrex", "en-de", value + 2),
                score("random", "ntrex", "de-en", 1.0),
            ],
            "captions": [score("pretrained", "multi30k_retrieval", "fr-en", value)],
            "ner": [score("pretrained", "panx", "sw", 3 * value), score("pretrained", "panx", "en", 99)],
        }
        for part, rows in parts.items():
            folder = tmp_path / f"tlm-{seed}" / part / "tables"
            folder.mkdir(parents=True)
            (folder / "scores.json").write_text(json.dumps({"scores": rows}))
    lines = ladder.table(tmp_path, ["tlm"], ["1", "2"]).splitlines()
    cells = dict(zip(lines[0].split(" | "), lines[2].split(" | "), strict=True))
    assert cells["multi30k_retrieval fr"] == "12.0 ± 2.8"
    assert cells["ntrex de"] == "13.0 ± 2.8" and cells["panx sw |"] == "36.0 ± 8.5 |"
    assert lines[2].startswith("| tlm |") and "| 1.0 ± 0.0 |" in lines[3]
