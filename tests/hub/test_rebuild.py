"""Vocabularies that come as ``tokenizer.json`` alone, and models with more rows than their tokenizer reads."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from tests.hub.differences import largest
from xling.core.errors import UserError
from xling.hub.export import run_hf as export_hf
from xling.hub.imports import run_hf
from xling.hub.settings import ExportConfig, ImportConfig
from xling.models.files import model_weights
from xling.text import vocab

LINES = (
    "The old woman sees a red boat near the river.", "  two   books\t\nat home ", "جارتي تبيع خبزا طازجا",
    "หญิงชราเห็นเรือสีแดง", "\u212b \ufb01ne ２０２６ e\u0301 ́", "x" * 300, "", "<unk> ▁ 日本語 👩‍👧",
)  # fmt: skip


def saved_by_transformers(spm: Path, folder: Path) -> Path:
    """A small XLM-R with random weights, whose tokenizer transformers has made of a SentencePiece model."""
    from transformers import XLMRobertaConfig, XLMRobertaForMaskedLM, XLMRobertaTokenizer

    torch.manual_seed(1)
    shutil.copy(spm, folder / "sentencepiece.bpe.model")
    (folder / "config.json").write_text('{"model_type": "xlm-roberta"}')
    tokenizer = XLMRobertaTokenizer.from_pretrained(folder)
    tokenizer.save_pretrained(folder)
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=66, type_vocab_size=1, pad_token_id=1,
    )  # fmt: skip
    XLMRobertaForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def foreign(vocab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small XLM-R with a tokenizer.json alone."""
    folder = saved_by_transformers(vocab / "spm.model", tmp_path_factory.mktemp("saved"))
    (folder / "sentencepiece.bpe.model").unlink()
    assert (folder / "tokenizer.json").is_file() and not list(folder.glob("*.model"))
    return folder


def ids_of(directory: Path, line: str) -> list[int]:
    return [3 if n == 0 else n + 1 for n in vocab.load_processor(directory).encode(line)]


def test_what_transformers_saved_is_read_with_equal_ids_and_logits(foreign: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    run_hf(ImportConfig(foreign, tmp_path / "in"))
    tokenizer = AutoTokenizer.from_pretrained(foreign)
    for line in LINES:
        wanted = tokenizer(line, add_special_tokens=False)["input_ids"]
        if "<unk>" not in line:  # written out, transformers reads it as a special
            assert ids_of(tmp_path / "in", line) == wanted, line
    model, _ = model_weights.load_model(tmp_path / "in")
    theirs = AutoModelForMaskedLM.from_pretrained(foreign).eval()
    ids = torch.tensor([0, *ids_of(tmp_path / "in", LINES[0]), 2])
    with torch.inference_mode():
        hidden = model.eval()(ids, torch.arange(len(ids)), [(1, len(ids))])
        assert largest(model.lm_head.logits(hidden), theirs(ids[None]).logits[0]) <= 1e-5


def test_an_export_saved_again_by_transformers_comes_back(vocab: Path, foreign: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    run_hf(ImportConfig(foreign, tmp_path / "in"))
    shutil.copy(vocab / "spm.model", tmp_path / "in" / "spm.model")  # with the rules of ours
    (tmp_path / "in" / "manifest.json").unlink()  # it has the digest of the one before
    export_hf(ExportConfig(tmp_path / "in", tmp_path / "out"))
    for loaded in (AutoModelForMaskedLM, AutoTokenizer):
        loaded.from_pretrained(tmp_path / "out").save_pretrained(tmp_path / "again")
    assert not list((tmp_path / "again").glob("*.model"))
    run_hf(ImportConfig(tmp_path / "again", tmp_path / "back"))
    for line in LINES:
        assert ids_of(tmp_path / "back", line) == ids_of(tmp_path / "in", line), line


def test_rows_that_no_token_reads_are_left_out_and_told(
    foreign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoModelForMaskedLM

    copy = tmp_path / "wide"
    shutil.copytree(foreign, copy)
    model = AutoModelForMaskedLM.from_pretrained(foreign)
    size = model.config.vocab_size
    model.resize_token_embeddings(size + 35, mean_resizing=False)
    model.save_pretrained(copy)
    run_hf(ImportConfig(copy, tmp_path / "in"))
    assert "35 rows behind <mask> are left out" in capsys.readouterr().err
    ours, _ = model_weights.load_model(tmp_path / "in")
    assert torch.equal(ours.encoder.tokens.weight, model.get_input_embeddings().weight[:size])


@pytest.mark.parametrize("change", [{"type": "WordLevel"}, {"vocab": [["a", 0.0]]}])
def test_another_kind_is_refused(foreign: Path, tmp_path: Path, change: dict[str, object]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(foreign, copy)
    told = json.loads((copy / "tokenizer.json").read_text())
    told["model"] |= change
    (copy / "tokenizer.json").write_text(json.dumps(told))
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        run_hf(ImportConfig(copy, tmp_path / "in"))


def test_files_of_two_tokenizers_are_refused(foreign: Path, vocab: Path, tmp_path: Path) -> None:
    """A SentencePiece model beside a tokenizer.json that lower-cases: both cannot be right."""
    copy = tmp_path / "copy"
    shutil.copytree(foreign, copy)
    shutil.copy(vocab / "spm.model", copy / "sentencepiece.bpe.model")
    run_hf(ImportConfig(copy, tmp_path / "in"))
    told = json.loads((copy / "tokenizer.json").read_text())
    told["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, told["normalizer"]]}
    (copy / "tokenizer.json").write_text(json.dumps(told))
    with pytest.raises(UserError, match=r"tokenizer.json cuts .*OLD woman.* give the tokenizer"):
        run_hf(ImportConfig(copy, tmp_path / "again"))
    assert not (tmp_path / "again").exists()


def test_letters_of_which_transformers_drops_a_mark_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import sentencepiece
    from transformers import AutoTokenizer

    lines = [
        "o\u0323\u0300ro\u0323\u0300 e\u0323\u0301ko\u0323\u0301",
        "\u1ecdr\u1ecd a\u1e63\u1ecd",
        "the old house",
        "a red boat",
    ]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 20), model_prefix=str(tmp_path / "yo"), vocab_size=30,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    (tmp_path / "hf").mkdir()
    folder = saved_by_transformers(tmp_path / "yo.model", tmp_path / "hf")
    run_hf(ImportConfig(folder, tmp_path / "in"))
    assert "decomposed letters with two marks, as in Yoruba, keep both" in capsys.readouterr().err
    own = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "yo.model"))
    wanted = [number + 1 for number in own.encode(lines[0])]
    assert ids_of(tmp_path / "in", lines[0]) == wanted and 3 not in wanted[1:]
    assert AutoTokenizer.from_pretrained(folder)(lines[0], add_special_tokens=False)["input_ids"] != wanted


def test_nothing_is_told_of_a_tokenizer_that_drops_no_mark(
    foreign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = json.loads((foreign / "tokenizer.json").read_text())
    shutil.copytree(foreign, tmp_path / "copy")
    told["normalizer"] = None
    (tmp_path / "copy" / "tokenizer.json").write_text(json.dumps(told))
    run_hf(ImportConfig(tmp_path / "copy", tmp_path / "in"))
    assert "two marks" not in capsys.readouterr().err
