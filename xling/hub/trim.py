"""Removal of vocabulary pieces that no text of the given languages uses: ``xling trim``.

Embeddings are most of a multilingual model: 192 of the 278 million parameters of XLM-R base. A kept piece
keeps its row, so states and logits are the same numbers. Text whose best segmentation only uses kept pieces
is segmented as before: removing others does not improve any segmentation. Source: Abdaoui et al. 2020, "Load
What You Need".
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.hub import checks, tokenizer
from xling.hub.settings import TrimConfig
from xling.models.files import model_weights
from xling.models.files.model_folder import TASK, TASK_FILE
from xling.models.network.encoder import PAD, EncoderModel
from xling.text import vocab
from xling.text.files import corpus_reader
from xling.transfer import tune

STAGE = "trim"
LINES = 10_000  # lines encoded at a time


def run(cfg: TrimConfig) -> manifest.Manifest:
    """Count the pieces, remove the unused ones and publish the smaller model.

    Raises:
        UserError: there is no text or no checkpoint, or a language is unknown.
    """
    inputs = checks.trim(cfg)
    if done := manifest.up_to_date(cfg.out, STAGE, cfg, inputs):
        return done
    kept = kept_pieces(cfg.checkpoint, cfg.corpora, cfg.least)
    with (
        tempfile.TemporaryDirectory() as folder,
        manifest.publish(cfg.out, STAGE, cfg, inputs) as publication,
    ):
        vocabulary = Path(folder)
        write_vocabulary(cfg.checkpoint, vocabulary, kept)
        mask = vocab.load_processor(cfg.checkpoint).get_piece_size() + 1
        pieces = [*range(len(tokenizer.SPECIALS)), *(piece + 1 for piece in kept)]
        if (cfg.checkpoint / TASK_FILE).is_file():
            tuned = tune.load(cfg.checkpoint)
            encoder, before = tuned.model.encoder, tuned.model.encoder.tokens.num_embeddings
            rows = torch.tensor([*pieces, *range(mask, before)])
            weight = encoder.tokens.weight[rows].detach().clone()
            encoder.tokens = nn.Embedding.from_pretrained(weight, padding_idx=PAD)
            langs = model_weights.read_published(cfg.checkpoint / TASK_FILE, TASK)["langs"]
            tune.save(
                replace(tuned, processor=vocab.load_processor(vocabulary)),
                publication.path,
                vocabulary,
                langs,
            )
        else:
            model, langs = _load(cfg.checkpoint)
            before = model.encoder.tokens.num_embeddings
            rows = torch.tensor([*pieces, *range(mask, before)])
            small = type(model)(model.cfg, len(rows), len(langs) if model.encoder.langs is not None else 0)
            state = model.state_dict()
            for name in {*model_weights.BY_TOKEN, *model_weights.TIED} & state.keys():
                state[name] = state[name][rows]
            small.load_state_dict(state)
            vocab.copy_vocabulary(vocabulary, publication.path)
            model_weights.save_model(publication.path / "model.pt", small, langs, publication.path)
        publication.counts |= {"langs": langs, "vocabulary_before": before, "vocabulary": len(rows)}
    return manifest.read(cfg.out)


def _load(directory: Path) -> tuple[EncoderModel, list[str]]:
    """Load the model, with its decoder if it has one, and its languages."""
    if model_weights.has_decoder(directory):
        model, symbols = model_weights.load_seq2seq(directory)
        return model, list(symbols.langs)
    return model_weights.load_model(directory)


def kept_pieces(folder: Path, corpora: dict[str, tuple[str, ...]], least: int = 1) -> list[int]:
    """Return the ids of the pieces to keep, in SentencePiece's numbering, ascending.

    Kept are the pieces used ``least`` times (for a BPE vocabulary also those that merges pass through) and
    every character of the text that is a piece. The piece with the lowest score is kept too: it determines
    the cost of an unknown character.

    Raises:
        UserError: a language has no text.
    """
    processor = vocab.load_processor(folder)
    uses = np.zeros(processor.get_piece_size(), dtype=np.int64)
    chars: set[str] = set()
    for lang, paths in corpora.items():
        seen = 0
        for lines in _batches(line for doc in corpus_reader.read_documents(paths) for line in doc):
            seen += len(lines)
            for line, ids in zip(lines, processor.encode(lines), strict=True):
                uses += np.bincount(ids, minlength=len(uses))
                chars.update(processor.normalize(line))
        if not seen:
            raise UserError(f"corpora.{lang}={','.join(paths)} holds no text", fix=f"leave {lang} out")
    first = tokenizer.NUM_SPM_SPECIALS
    scores = [processor.get_score(i) for i in range(first, len(uses))]
    kept = set((uses >= least).nonzero()[0].tolist()) | {first + int(np.argmin(scores))}
    kept |= {processor.piece_to_id(char) for char in chars}
    kept |= {piece for piece in range(len(uses)) if processor.is_byte(piece)}  # all 256, or none
    if tokenizer.read_model(folder / "spm.model").trainer_spec.model_type == tokenizer.BPE_TYPE:
        kept = with_merges(kept, processor)
    return sorted(piece for piece in kept if piece >= first)


def with_merges(kept: set[int], processor: Any) -> set[int]:
    """Add the pieces that byte-pair merges may pass through on the way to the kept ones."""
    reached, left, unknown = set(kept), list(kept), processor.unk_id()
    while left:
        piece = processor.id_to_piece(left.pop())
        for cut in range(1, len(piece)):
            halves = {processor.piece_to_id(piece[:cut]), processor.piece_to_id(piece[cut:])}
            if unknown not in halves:
                left += halves - reached
                reached |= halves
    return reached


def _batches(lines: Iterable[str]) -> Iterable[list[str]]:
    batch: list[str] = []
    for line in lines:
        batch.append(line)
        if len(batch) == LINES:
            yield batch
            batch = []
    if batch:
        yield batch


def write_vocabulary(folder: Path, out: Path, kept: list[int]) -> None:
    """Write ``spm.model`` and ``dict.txt`` with the three specials of SentencePiece and the pieces ``kept``."""
    model = tokenizer.read_model(folder / "spm.model")
    pieces = [model.pieces[i] for i in [*range(tokenizer.NUM_SPM_SPECIALS), *kept]]
    copies = [type(piece).FromString(piece.SerializeToString()) for piece in pieces]
    del model.pieces[:]
    model.pieces.extend(copies)
    model.trainer_spec.vocab_size = len(copies)
    (out / "spm.model").write_bytes(model.SerializeToString())
    text = "".join(f"{piece.piece} 1\n" for piece in copies[tokenizer.NUM_SPM_SPECIALS :])
    (out / "dict.txt").write_text(text, encoding="utf-8")
