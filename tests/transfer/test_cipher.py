"""Unsupervised translation of a re-lettered language, in a sample of `benchmarks/cipher.py`."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import cipher

SAMPLE = (
    "train.updates=24", "train.warmup=4", "train.valid_every=24", "train.save_every=24", "back.word_by_word=30",
    "train.log_every=6", "model.precision=fp32",
    "train.batch_tokens=1000", "valid_lines=10", "model.layers=1", "model.decoder_layers=1", "model.dim=64",
    "model.ffn_dim=128", "denoise_settings.schedule=0:1,18:0.1", "train.lr=1e-2",
)  # fmt: skip


def test_a_relettered_language_is_learnt_without_a_single_pair(tmp_path: Path) -> None:
    """The dictionary knows all words, and the model's losses in both directions fall; BLEU is for the long run."""
    found = cipher.scores(tmp_path, 400, 4, *SAMPLE)
    for direction in ("en-el", "el-en"):
        assert found[direction]["copy"]["bleu"] < 10
        assert found[direction]["word_by_word"]["bleu"] > 95
        assert "model" in found[direction]
    events = [json.loads(line) for line in (tmp_path / "umt/log.jsonl").read_text().splitlines()]
    for key in ("loss/umt/en", "loss/umt/el", "loss/dae/en", "loss/dae/el"):
        assert 1 < events[-1][key] < 0.8 * events[0][key], key
