"""A trimmed model gives the same scores on text of its languages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.hub.test_mbart import publish
from xling.core.errors import UserError
from xling.core.settings import config
from xling.data.packing import pack, pack_seq2seq
from xling.hub.trim import TrimConfig, find_kept_pieces, run, write_vocabulary
from xling.models.files import model_weights
from xling.objectives.seq2seq import example
from xling.text import vocab as vocabulary
from xling.transfer import tune
from xling.transfer.encode import encode_pieces


def scores(folder: Path, text: str) -> tuple[list[str], torch.Tensor]:
    """The pieces of a text, and the logits (length, length) of each of them at each place."""
    model, processor = model_weights.load_model(folder)[0].eval(), vocabulary.load_processor(folder)
    tokens = [0, *encode_pieces(processor, text)[:60], 2]
    example = {"id": np.array([0]), "tokens": np.array(tokens), "positions": np.arange(len(tokens))}
    with torch.inference_mode():
        logits = model.lm_head.logits(model(**pack([example])["net_input"]))
    return processor.encode(text, out_type=str), logits[:, tokens]


def test_scores_stay_the_same(model: Path, corpus: Path, tmp_path: Path) -> None:
    english = corpus / "en.txt"
    made = run(TrimConfig(model, tmp_path / "out", {"en": (str(english),)}))
    assert made.counts["vocabulary"] < made.counts["vocabulary_before"]
    for line in filter(None, english.read_text().split("\n")[:50]):
        (before, wanted), (after, found) = scores(model, line), scores(tmp_path / "out", line)
        assert before == after
        assert torch.equal(wanted, found)
    arabic = (corpus / "ar.txt").read_text().split("\n")[0]
    assert vocabulary.load_processor(model).encode(arabic).count(0) < vocabulary.load_processor(
        tmp_path / "out"
    ).encode(arabic).count(0)


def test_byte_pairs_are_merged_as_before(corpus: Path, tmp_path: Path) -> None:
    english, half = corpus / "en.txt", tmp_path / "half.txt"
    lines = [line for line in english.read_text().split("\n") if line]
    half.write_text("\n".join(lines[: len(lines) // 2]) + "\n", encoding="utf-8")
    texts = {"en": (str(english),), "th": (str(corpus / "th.txt"),)}
    vocabulary.run(vocabulary.VocabConfig(str(tmp_path / "bpe"), texts, size=300, coverage=1.0, model="bpe"))
    kept = find_kept_pieces(tmp_path / "bpe", {"en": (str(half),)})
    (tmp_path / "small").mkdir()
    write_vocabulary(tmp_path / "bpe", tmp_path / "small", kept)
    before, after = (vocabulary.load_processor(tmp_path / name) for name in ("bpe", "small"))
    assert after.get_piece_size() < before.get_piece_size()
    for line in lines[: len(lines) // 2]:
        assert before.encode(line, out_type=str) == after.encode(line, out_type=str)


def test_task_models_are_trimmed_too(
    corpus: Path, tmp_path: Path, task: Callable[..., tuple[tune.TunedModel, Path, list[Any]]]
) -> None:
    tuned, folder, rows = task("classify")
    files = {lang: (str(corpus / f"{lang}.txt"),) for lang in ("en", "th")}
    run(TrimConfig(folder, tmp_path / "out", files))
    small = tune.load_tuned(tmp_path / "out")
    assert small.model.encoder.tokens.num_embeddings < tuned.model.encoder.tokens.num_embeddings
    for (_, before), (_, after) in zip(tuned.encode(rows), small.encode(rows), strict=True):
        wanted, found = (
            m.model.eval()(pack([e | {"id": np.array([0])}])) for m, e in ((tuned, before), (small, after))
        )
        assert torch.equal(wanted, found)


def test_no_text_is_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    for files in ({}, {"en": (str(tmp_path / "empty.txt"),)}):
        with pytest.raises(UserError, match="no text"):
            run(
                config.from_dict(
                    TrimConfig, {"checkpoint": str(model), "out": str(tmp_path / "o"), "corpora": files}
                )
            )
    assert not (tmp_path / "o").exists()


def test_a_decoder_keeps_its_language_tokens(vocab: Path, corpus: Path, tmp_path: Path) -> None:
    folder = publish(tmp_path / "m", vocab)
    made = run(TrimConfig(folder, tmp_path / "out", {"en": (str(corpus / "en.txt"),)}))
    assert made.counts["vocabulary"] < made.counts["vocabulary_before"]
    (old, before), (new, after) = (model_weights.load_seq2seq(x) for x in (folder, tmp_path / "out"))
    assert after.langs == before.langs and after.sentinels == before.sentinels
    processors = [vocabulary.load_processor(x) for x in (folder, tmp_path / "out")]
    line = "The old woman sees a red boat near the river."
    found = []
    for model, symbols, processor in zip((old, new), (before, after), processors, strict=True):
        tokens = np.array(encode_pieces(processor, line))
        pair = example(np.append(tokens, 2), np.append(tokens[:9], 2), 1, 2, symbols) | {"id": np.array([0])}
        with torch.inference_mode():
            logits = model.eval().decoder.head.logits(model(**pack_seq2seq([pair])["net_input"]))
        kept = [*tokens, *range(symbols.mask, symbols.size)]
        found.append(logits[:, kept])
    assert torch.equal(*found)
