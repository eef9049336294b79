"""Stock fairseq with our tasks: generate and interactive write what ``xling translate`` does, eval-lm scores."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import eval_lm, generate, interactive
from omegaconf import OmegaConf

from xling.core.errors import UserError
from xling.core.settings import config
from xling.models.files import model_weights
from xling.models.generate.settings import Search
from xling.tasks import register as register
from xling.text import vocab
from xling.text.files import shards
from xling.training import checks
from xling.training.settings import PretrainConfig
from xling.transfer.translation.translate import Translator

pytestmark = pytest.mark.filterwarnings("ignore")
SHAPE = ("model.layers=1", "model.dim=32", "model.heads=2", "model.ffn_dim=64", "model.max_positions=64",
         "model.precision=fp32", "train.batch_tokens=256")  # fmt: skip
SEARCH = ("--beam", "3", "--max-len-a", "1.5", "--max-len-b", "10", "--cpu", "--lenpen", "0.8")

Made = Callable[..., Path]


@pytest.fixture
def made(build: Any, bitext: Path, tmp_path: Path) -> Made:
    """A checkpoint of fairseq with random weights that are not small, and beside it the same model as we publish it."""

    def make(name: str, *words: str) -> Path:
        trainer, task = build(name, *SHAPE, *words, save_dir=tmp_path)
        torch.manual_seed(3)
        with torch.no_grad():
            for parameter in trainer.model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
        torch.save(
            {
                "cfg": OmegaConf.to_container(trainer.cfg, resolve=True, enum_to_str=True),
                "args": None,
                "optimizer_history": [{"criterion_name": "", "lr_scheduler_state": {}, "num_updates": 0}],
                "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
                "model": trainer.model.state_dict(),
            },
            tmp_path / "last.pt",
        )
        folder = tmp_path / "published"
        folder.mkdir()
        vocab.copy_vocabulary(bitext, folder)
        model_weights.save_model(folder / "model.pt", trainer.model, task.langs, bitext)
        return tmp_path

    return make


def call(module: Any, parser: Any, data: Path, folder: Path, *words: str) -> Any:
    """Run the main function of a command of fairseq, as its script does."""
    arguments = options.parse_args_and_arch(parser, [str(data), "--path", str(folder / "last.pt"), *words])
    return module.main(convert_namespace_to_omegaconf(arguments))


def translated(folder: Path, texts: list[str], src: str, tgt: str) -> list[str]:
    search = Search(beam=3, length_penalty=0.8, max_len_a=1.5, max_len_b=10)
    return Translator(folder / "published", search)(texts, src, tgt)


def hypotheses(printed: str, letter: str = "H") -> dict[int, tuple[float, str]]:
    rows = re.findall(rf"^{letter}-(\d+)\t(\S+)\t(.*)$", printed, re.M)
    return {int(number): (float(score), text) for number, score, text in rows}


def text_of(pieces: str) -> str:
    return pieces.replace(" ", "").replace("▁", " ").strip()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("translation", ["objectives.translation.pairs=en-ar"]),
        ("translation", ["objectives.translation.pairs=en-ar", "model.lang_first=true"]),
        ("mbart", []),
    ],
)
def test_generate_writes_what_translate_does(
    made: Made, bitext: Path, capsys: pytest.CaptureFixture[str], name: str, words: list[str]
) -> None:
    folder = made(name, *words)
    parser = options.get_generation_parser()
    options_ = ["--task", f"xling_{name}", "-s", "arb_Arab", "-t", "eng", "--gen-subset", "valid", *SEARCH]
    call(generate, parser, bitext, folder, *options_)
    printed = capsys.readouterr().out
    found = hypotheses(printed)
    shard = shards.open_shard(bitext / "en-ar" / "valid.en-ar.ar")
    processor = vocab.load_processor(bitext)
    texts = [
        processor.decode([int(i) - 1 for i in shard.tokens[start : start + size - 1]])
        for start, size in zip(shard.starts(), shard.sizes, strict=True)
    ]
    assert len(found) == len(texts) > 1
    wanted = translated(folder, texts, "ar", "en")
    assert [text_of(found[number][1]) for number in range(len(texts))] == wanted
    assert len({*wanted}) > 1  # not one output for all
    for number, scores in re.findall(r"^P-(\d+)\t(.*)$", printed, re.M):
        each = np.array(scores.split(), dtype=float)
        num_tokens = len(each) + ("model.lang_first=true" in words)  # the forced language counts
        assert each.sum() / num_tokens**0.8 == pytest.approx(found[int(number)][0], abs=2e-3)


def test_interactive_writes_what_translate_does(
    made: Made, bitext: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made("translation", "objectives.translation.pairs=en-ar")
    texts = ["A young doctor finds two books at home.", "", "My neighbour sells a red boat near the river."]
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{text}\n" for text in texts)))
    words = [
        "--task",
        "xling_translation",
        "-s",
        "en",
        "-t",
        "ar",
        "--input",
        "-",
        "--buffer-size",
        "3",
        *SEARCH,
    ]
    spm = ["--bpe", "sentencepiece", "--sentencepiece-model", str(bitext / "spm.model")]
    call(interactive, options.get_interactive_generation_parser(), bitext, folder, *words, *spm)
    found = hypotheses(capsys.readouterr().out, "D")
    assert [found[number][1] for number in range(3)] == translated(folder, texts, "en", "ar")


@pytest.mark.parametrize(("trained", "given"), [("mbart", "umt"), ("umt", "mbart")])
def test_a_checkpoint_of_another_task_with_a_decoder_translates(
    made: Made, bitext: Path, capsys: pytest.CaptureFixture[str], trained: str, given: str
) -> None:
    pairs = ["objectives.umt.pairs=en-ar"] if trained == "umt" else []
    folder = made(trained, *pairs)
    words = ["--task", f"xling_{given}", "-s", "ar", "-t", "en", "--gen-subset", "valid", *SEARCH]
    call(generate, options.get_generation_parser(), bitext, folder, *words)
    found = hypotheses(capsys.readouterr().out)
    call(generate, options.get_generation_parser(), bitext, folder, *words[2:], "--task", f"xling_{trained}")
    assert hypotheses(capsys.readouterr().out) == found
    assert len({text for _, text in found.values()}) > 1


def test_eval_lm_gives_the_perplexity_of_the_validation(made: Made, build: Any, bitext: Path) -> None:
    folder = made("clm", "objectives.clm.tokens_per_sample=32")
    words = ["--task", "xling_clm", "--tokens-per-sample", "32", "--gen-subset", "valid", "--cpu"]
    found = call(eval_lm, options.get_eval_lm_parser(), bitext, folder, *words)
    trainer, task = build("clm", *SHAPE, "objectives.clm.tokens_per_sample=32", save_dir=folder)
    trainer.model.load_state_dict(torch.load(folder / "last.pt", weights_only=False)["model"])
    trainer.model.eval()
    task.load_dataset("valid")
    batches = task.get_batch_iterator(task.dataset("valid"), max_tokens=256).next_epoch_itr(shuffle=False)
    with torch.no_grad():
        losses = torch.cat([task.losses(trainer.model, batch)["clm"].rows for batch in batches if batch])
    assert found["loss"] == pytest.approx(float(losses.double().mean()) / np.log(2), rel=1e-5)


@pytest.mark.parametrize(
    ("task", "words", "said"),
    [
        (
            "mmlm",
            [],
            "xling_mmlm trains an encoder, which writes no text; valid: a task with a decoder: xling_dae,",
        ),
        ("translation", [], "--source-lang (not given); valid: ar, en, th"),
        ("translation", ["-s", "en", "-t", "fr"], "--target-lang fr; valid: ar, en, th"),
        ("translation", ["-s", "ar", "-t", "th"], "no sentence pairs of ar and th in "),
        ("translation", ["-s", "en", "-t", "ar", "--gen-subset", "test"], "no split 'test' of en-ar in "),
        (
            "translation",
            ["-s", "en", "-t", "ar", "--no-repeat-ngram-size", "3"],
            "--no-repeat-ngram-size 3: our",
        ),
        ("translation", ["-s", "en", "-t", "ar", "--sampling", "--nbest", "5"], "sample with beam=5"),
        (
            "translation",
            ["-s", "en", "-t", "ar", "--temperature", "2"],
            "--temperature 2.0 without --sampling",
        ),
    ],
)
def test_one_line_says_what_has_no_meaning(
    made: Made, bitext: Path, task: str, words: list[str], said: str
) -> None:
    folder = made(task)
    subset = [] if "--gen-subset" in words else ["--gen-subset", "valid"]
    with pytest.raises(SystemExit, match=re.escape(f"xling: {said}")):
        call(
            generate,
            options.get_generation_parser(),
            bitext,
            folder,
            "--task",
            f"xling_{task}",
            *subset,
            *words,
        )


@pytest.mark.parametrize(
    ("task", "words"), [("mmlm", []), ("translation", []), ("clm", ["--context-window", "8"])]
)
def test_eval_lm_is_for_clm_alone(made: Made, bitext: Path, task: str, words: list[str]) -> None:
    folder = made(task)
    options_ = ["--task", f"xling_{task}", "--gen-subset", "valid", "--cpu", *words]
    with pytest.raises(SystemExit, match="xling: fairseq-eval-lm has no meaning for"):
        call(eval_lm, options.get_eval_lm_parser(), bitext, folder, *options_)


def test_the_direction_is_no_setting_of_a_training() -> None:
    words = ["data=x", "out=y", "objectives.mmlm.source_lang=en"]
    cfg = config.load(PretrainConfig, overrides=words)
    with pytest.raises(UserError, match="unknown setting"):
        checks.settings_of_objectives(cfg)
