"""Pieces of another vocabulary added at import: old rows stay, new ones come from them; models by name."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece as spm
import torch

from tests.hub.test_import import foreign as foreign
from tests.hub.test_mbart import publish
from xling.core.errors import UserError
from xling.core.settings import config
from xling.hub import extend, files
from xling.hub.export import ExportConfig
from xling.hub.export import run_fairseq as export_fairseq
from xling.hub.imports import ImportConfig, run_fairseq, run_hf
from xling.models.files import model_weights
from xling.text import vocab as vocabulary
from xling.training.settings import PretrainConfig
from xling.training.train import run as pretrain
from xling.transfer.encode import encode_pieces

STEMS = (
    "ona", "uza", "penda", "tafuta", "soma", "andika", "nunua", "pika", "lala", "enda", "kimbia", "cheza", "imba",
    "safiri", "fundisha",
)  # fmt: skip
SWAHILI = [
    a + b + stem for a in ("a", "wa", "ni", "tu", "m") for b in ("na", "li", "ta", "me") for stem in STEMS
]


@pytest.fixture(scope="module")
def swahili(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary of words in an order that repeats nothing."""
    folder = tmp_path_factory.mktemp("sw")
    lines = [" ".join(SWAHILI[(7 * i + 11 * j) % len(SWAHILI)] for j in range(8)) for i in range(300)]
    (folder / "sw.txt").write_text("\n".join(lines), encoding="utf-8")
    vocabulary.run(
        vocabulary.VocabConfig(corpora={"sw": (str(folder / "sw.txt"),)}, out=str(folder / "v"), size=80)
    )
    return folder / "v"


def rows_of(folder: Path) -> tuple[Any, torch.Tensor, torch.Tensor]:
    model, _ = model_weights.load_model(folder)
    return (
        vocabulary.load_processor(folder),
        model.encoder.tokens.weight.detach(),
        model.lm_head.bias.detach(),
    )


@pytest.mark.parametrize("init", ["mean", "fvt", "overlap"])
def test_old_rows_stay_and_new_ones_come_from_them(
    foreign: Path, swahili: Path, tmp_path: Path, init: str
) -> None:
    run_hf(ImportConfig(foreign, tmp_path / "old", ("en",)))
    made = run_hf(
        replace(ImportConfig(foreign, tmp_path / "new", ("en", "sw")), extend_vocab=swahili, init=init)  # type: ignore[arg-type]
    )
    (old, before, old_bias), (new, after, bias) = rows_of(tmp_path / "old"), rows_of(tmp_path / "new")
    num, added = old.get_piece_size(), made.counts["pieces_added"]
    assert added > 20 and new.get_piece_size() == num + added and len(after) == len(before) + added
    first = num + 1  # the ids of pieces are one ahead of SentencePiece's
    assert torch.equal(after[:first], before[:first]) and torch.equal(after[-1], before[-1])
    assert torch.equal(bias[:first], old_bias[:first]) and torch.equal(bias[-1], old_bias[-1])
    names = {old.id_to_piece(i): i + 1 for i in range(3, num)}
    mean, of_mean = before[4:first].mean(0), 0
    for number in range(first, first + added):
        piece = new.id_to_piece(number - 1)
        assert piece not in names
        if init == "overlap":
            letters = piece.removeprefix("\u2581").lower()
            found = [i for name, i in names.items() if name.removeprefix("\u2581").lower() == letters]
            assert not found or any(torch.equal(after[number], before[i]) for i in found), piece
        else:
            # In front of a text the word's start is written by itself; within one there is none.
            starts = piece.startswith("\u2581")
            cut = [i for i in encode_pieces(old, piece[1:]) if i != 3] if init == "fvt" and starts else []
            found = cut
            if cut:
                assert torch.allclose(after[number], before[cut].mean(0), atol=1e-6), piece
                assert torch.allclose(bias[number], old_bias[cut].mean(), atol=1e-6), piece
            if init == "fvt" and not starts:  # see test_fvt_by_hand
                of_mean += torch.allclose(after[number], mean, atol=1e-6)
                continue
        if not found:
            of_mean += 1
            assert torch.allclose(after[number], mean, atol=1e-6), piece
    assert made.counts["rows_of_the_mean"] == of_mean
    assert of_mean == added if init == "mean" else of_mean <= added
    assert init != "fvt" or of_mean < added / 2


def test_overlap_takes_the_same_letters(tmp_path: Path) -> None:
    old = ["\u2581kate", "Kate", "kat", "\u2581Na", "na"]
    fresh = ["kate", "\u2581kat", "\u2581NA", "\u2581kate\u0301", "NA", "\u2581"]
    found = extend._source_rows(fresh, old, None, "overlap")
    # The same spelling first, then the same beginning, then the first in the list.
    assert found == [(4,), (6,), (7,), (), (8,), ()]


def test_fvt_by_hand(vocab: Path, tmp_path: Path) -> None:
    processor = vocabulary.load_processor(vocab)
    model = spm.SentencePieceProcessor(model_file=str(vocab / "spm.model"))
    cutter = extend._plain_processor(files.tokenizer.read_spm_model(vocab / "spm.model"))
    (first,) = extend._source_rows(["\u2581book"], [], cutter, "fvt")
    assert [model.id_to_piece(i - 1) for i in first] == processor.encode("book", out_type=str)
    inside = extend._source_rows(["book"], [], cutter, "fvt")[0]
    assert inside and not model.id_to_piece(inside[0] - 1).startswith("\u2581")
    assert extend._source_rows(["жщ"], [], cutter, "fvt") == [()]  # letters that it has not: the mean of all


def test_new_text_is_cut_into_fewer_pieces_and_old_text_still_fits(
    foreign: Path, swahili: Path, tmp_path: Path
) -> None:
    run_hf(ImportConfig(foreign, tmp_path / "old"))
    run_hf(replace(ImportConfig(foreign, tmp_path / "new"), extend_vocab=swahili / "spm.model"))
    old, new = (vocabulary.load_processor(tmp_path / x) for x in ("old", "new"))
    text = " ".join(SWAHILI[::7])
    assert len(new.encode(text)) < 0.9 * len(old.encode(text))
    for line in ("The old woman sees a red boat.", "المرأة العجوز", "หญิงชราเห็นเรือ"):
        assert new.decode(new.encode(line)) == old.decode(old.encode(line))


def test_pretraining_goes_on_with_the_new_pieces(
    foreign: Path, swahili: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    from xling.corpora import binarize

    run_hf(replace(ImportConfig(foreign, tmp_path / "m", ("en", "sw")), extend_vocab=swahili))
    (tmp_path / "sw.txt").write_text("\n\n".join(" ".join(SWAHILI[i : i + 9]) for i in range(40)))
    paths = {"sw": (str(tmp_path / "sw.txt"),)}
    binarize.run(binarize.BinarizeConfig(vocab=str(tmp_path / "m"), out=str(tmp_path / "d"), corpora=paths))
    words = [*tiny, "model.heads=4", "model.ffn_dim=48", "train.updates=2", f"data={tmp_path / 'd'}"]
    words += [f"out={tmp_path / 'out'}", f"init={tmp_path / 'm'}", "train.lr=1e-9"]
    pretrain(config.load(PretrainConfig, overrides=words))
    one, two = (model_weights.load_model(tmp_path / x)[0].encoder.tokens.weight for x in ("m", "out"))
    assert torch.allclose(one, two, atol=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_encoder_decoder_keeps_its_languages_behind(vocab: Path, swahili: Path, tmp_path: Path) -> None:
    folder = publish(tmp_path / "m", vocab, unbiased_head=True)
    export_fairseq(ExportConfig(folder, tmp_path / "f"))
    made = run_fairseq(replace(ImportConfig(tmp_path / "f", tmp_path / "in"), extend_vocab=swahili))
    added = made.counts["pieces_added"]
    (one, first), (two, second) = (model_weights.load_seq2seq(x) for x in (folder, tmp_path / "in"))
    assert second.langs == first.langs and second.mask == first.mask + added
    for index in range(len(first.langs)):
        rows = [m.encoder.tokens.weight[s.lang(index)] for m, s in ((one, first), (two, second))]
        assert torch.equal(*rows)


def test_what_cannot_be_added_is_refused(foreign: Path, swahili: Path, vocab: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cfg = ImportConfig(foreign, out)
    (tmp_path / "bad.model").write_bytes(b"x")
    with pytest.raises(UserError, match="no piece that"):
        run_hf(replace(cfg, extend_vocab=vocab))
    with pytest.raises(UserError, match="not a SentencePiece model"):
        run_hf(replace(cfg, extend_vocab=tmp_path / "bad.model"))
    with pytest.raises(UserError, match="no SentencePiece model at"):
        run_hf(replace(cfg, extend_vocab=tmp_path))
    shutil.copytree(swahili, tmp_path / "bpe")
    model = files.tokenizer.read_spm_model(swahili / "spm.model")
    model.trainer_spec.model_type = 2
    (tmp_path / "bpe" / "spm.model").write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match="not a unigram model"):
        run_hf(replace(cfg, extend_vocab=tmp_path / "bpe"))
    with pytest.raises(UserError, match="init"):
        config.from_dict(ImportConfig, {"source": str(foreign), "out": str(out), "init": "median"})
    assert not out.exists()


def test_pieces_that_normalisation_never_writes_are_left_out(
    foreign: Path, swahili: Path, tmp_path: Path
) -> None:
    model = files.tokenizer.read_spm_model(swahili / "spm.model")
    model.pieces[10].piece = "\u2581ﬁ"  # the ligature becomes two letters
    (tmp_path / "spm.model").write_bytes(model.SerializeToString())
    made = run_hf(replace(ImportConfig(foreign, tmp_path / "out"), extend_vocab=tmp_path))
    assert made.counts["pieces_unwritable"] == 1
    assert "\u2581ﬁ 1" not in (tmp_path / "out" / "dict.txt").read_text()


def test_a_name_is_fetched_and_no_network_is_said(
    foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    asked: list[Any] = []

    def fetch(name: str, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((name, revision, "pytorch_model.bin" in allow_patterns))
        return str(foreign)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    run_hf(ImportConfig(Path("someone/xlmr"), tmp_path / "out", revision="abc"))
    assert asked == [("someone/xlmr", "abc", False)]
    run_hf(ImportConfig(foreign, tmp_path / "same"))
    assert torch.equal(*(rows_of(tmp_path / x)[1] for x in ("out", "same")))


def test_without_a_network_a_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match="no model of that name could be fetched"):
        run_hf(ImportConfig(Path("someone/no-such-model"), tmp_path / "out"))
    for source in (tmp_path / "nothing", Path("a/b/c"), Path("../x")):
        with pytest.raises(UserError, match="no directory"):
            run_hf(ImportConfig(source, tmp_path / "out"))
    assert not (tmp_path / "out").exists()
