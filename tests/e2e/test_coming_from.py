"""The commands of ``docs/coming-from.md``, made small, one after the other in one folder."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import datasets
import pytest

from tests.hub import test_mbart, test_xlm
from tests.hub import test_transformers_wrapper as test_foreign
from xling import cli

pytestmark = pytest.mark.slow
PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHAPE = ("model.layers=2", "model.decoder_layers=2", "model.dim=32", "model.heads=4", "model.ffn_dim=48")
TRAIN = (
    "train.updates=2",
    "train.batch_tokens=256",
    "train.accumulate=1",
    "train.warmup=1",
    "train.valid_every=2",
)
SMALL = {
    "vocab": ("size=120", "coverage=1.0"),
    "pretrain": (*SHAPE, *TRAIN, "model.max_positions=64", "objectives.mbart.tokens_per_sample=32"),
    "finetune mt": (
        "tokens_per_sample=32",
        "train.updates=2",
        "train.batch_tokens=256",
        "train.warmup=1",
        "train.valid_every=2",
    ),
    "finetune toy_xnli": ("fit.epochs=1", "fit.max_length=32"),
    "eval": ("fit.epochs=1", "fit.max_length=32", "seeds=1"),
}
"""Settings that replace those of the page, by stage."""
OTHER = {
    "pairs.en-sw=corpora/en-sw": "pairs.en-sw=en.txt,sw.txt",
    "xnli": "toy_xnli",
    "panx": "toy_ner",
    "udpos": "",
    "xquad": "",
    "checkpoint=hf:MODEL_OR_FOLDER": "checkpoint=hf:FacebookAI/roberta-base",
}
"""Words of the page for data and models that are not here."""


def commands() -> list[list[str]]:
    """The words of each command of the page."""
    lines = [line for block in BLOCK.findall(PAGE.read_text(encoding="utf-8")) for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("xling ")]


def smaller(words: list[str]) -> list[str]:
    """A command of the page with small settings and with data and models that are here."""
    if words[:2] == ["eval", "fetch"] or "cluster=slurm" in words:
        return words
    words = [word for word in (OTHER.get(word, word) for word in words) if word]
    name = next((n for n in SMALL if words[: len(n.split())] == n.split()), "")
    keys = {word.partition("=")[0] for word in SMALL.get(name, ())}
    more = (
        SHAPE if name == "finetune mt" and not any(word.startswith("checkpoint=") for word in words) else ()
    )
    return [*(word for word in words if word.partition("=")[0] not in keys), *SMALL.get(name, ()), *more]


def prepare(vocab: Path) -> None:
    """Write what the page calls the user's own: texts, pairs, models with random weights, and rows of two suites."""
    assert cli.main(["toyworld", "out=DATA", "num_docs=60", "num_pairs=60", "num_ner=30", "num_nli=30"]) == 0
    lines = {lang: Path(f"DATA/para/en-sw.{lang}").read_text().splitlines() for lang in ("en", "sw")}
    Path("text").mkdir()
    for name, lang in (("en", "en"), ("yo", "sw"), ("sw", "sw"), ("src", "en"), ("tgt", "sw")):
        Path(f"{name}.txt").write_text("".join(f"{line}\n" for line in lines[lang]), encoding="utf-8")
    for name, lang in (("en", "en"), ("yo", "sw")):  # a line is a document
        Path(f"text/{name}.txt").write_text("\n\n".join(lines[lang]), encoding="utf-8")
    text = [*lines["en"], *lines["sw"]]
    test_mbart.save_cc25(vocab, Path("facebook/mbart-large-cc25"))
    test_foreign.save_random("deberta-v2", text, Path("microsoft/mdeberta-v3-base"))
    test_foreign.save_random("roberta", text, Path("FacebookAI/roberta-base"))
    test_xlm.save_random(text, Path("FacebookAI/xlm-mlm-100-1280"))
    test_xlm.written_by_xlm(Path("mlm_enfr_1024"), Path("FacebookAI/xlm-mlm-100-1280"))
    write_xnli(Path("facebook/xnli"))


def write_xnli(folder: Path) -> None:
    """Write XNLI's rows as the hub lays them out: a configuration by language."""
    row = {"premise": "a red boat", "hypothesis": "a boat", "label": 0}
    nli = datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])
    features = {"premise": datasets.Value("string"), "hypothesis": datasets.Value("string"), "label": nli}
    rows = datasets.Dataset.from_list([row] * 3, features=datasets.Features(features))
    lines = ["---", "configs:"]
    for lang in ("en", "sw"):
        (folder / lang).mkdir(parents=True)
        lines += [f"- config_name: {lang}", "  data_files:"]
        for split in ("train", "validation", "test"):
            rows.to_parquet(folder / lang / f"{split}-0.parquet")
            lines += [f"  - split: {split}", f"    path: {lang}/{split}-*"]
    (folder / "README.md").write_text("\n".join([*lines, "---", ""]))


def run(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command with its redirections, and return what it said; a cluster's is planned and not submitted."""
    words = ["cluster=plan" if word == "cluster=slurm" else word for word in words]
    if "<" in words:
        at, to = words.index("<"), words.index(">")
        with Path(words[at + 1]).open(encoding="utf-8") as file:
            monkeypatch.setattr(sys, "stdin", file)
            assert cli.main(words[:at]) == 0, capsys.readouterr().err[-2000:]
        Path(words[to + 1]).write_text(capsys.readouterr().out, encoding="utf-8")
        return ""
    assert cli.main(words) == 0, (words, capsys.readouterr().err[-2000:])
    return capsys.readouterr().out


def test_every_command_of_the_page_runs(
    vocab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XLING_CACHE", str(tmp_path / "cache"))
    prepare(vocab)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    datasets.disable_progress_bars()
    shutil.copy("en.txt", "in.txt")
    ran = {" ".join(words): run(smaller(words), monkeypatch, capsys) for words in commands()}
    assert len(ran) >= 14
    assert Path("out.txt").read_text().count("\n") == Path("in.txt").read_text().count("\n")
    assert len(Path("DATA/rows/xnli/sw.test.jsonl").read_text().splitlines()) == 3
    plan = next(said for words, said in ran.items() if "cluster=slurm" in words)
    assert "--nodes=2" in plan and "--gpus-per-node=8" in plan and not Path("runs/xlmr").exists()
