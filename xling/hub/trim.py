"""Removal of vocabulary pieces that no text of the given languages uses: ``xling trim``.

Embeddings are most of a multilingual model: 192 of the 278 million parameters of XLM-R base. A kept piece
keeps its row, so states and logits are the same numbers. Text whose best segmentation only uses kept pieces
is segmented as before: removing others does not improve any segmentation. Source: Abdaoui et al. 2020, "Load
What You Need".
"""

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
from xling.hub import checks, files, tokenizer
from xling.hub.settings import TrimConfig
from xling.models.files import model_weights
from xling.models.files.model_folder import TASK, TASK_FILE, tag_marks
from xling.models.network.encoder import PAD, EncoderModel
from xling.text import vocab
from xling.text.files import corpus_reader
from xling.transfer import sentence, tune

STAGE = "trim"
LINES_PER_BATCH = 10_000  # lines encoded at a time


def run(cfg: TrimConfig) -> manifest.Manifest:
    """Count the pieces, remove the unused ones and publish the smaller model.

    Raises:
        UserError: there is no text or no checkpoint, or a language is unknown.
    """
    inputs = checks.check_trim(cfg)
    if published := manifest.up_to_date(cfg.out, STAGE, cfg, inputs):
        return published
    kept = find_kept_pieces(cfg.checkpoint, cfg.corpora, cfg.least)
    with (
        tempfile.TemporaryDirectory() as folder,
        manifest.publish(cfg.out, STAGE, cfg, inputs) as publication,
    ):
        vocabulary_folder = Path(folder)
        write_vocabulary(cfg.checkpoint, vocabulary_folder, kept)
        mask_id = vocab.load_processor(cfg.checkpoint).get_piece_size() + 1
        piece_ids = [*range(len(tokenizer.SPECIAL_TOKENS)), *(piece + 1 for piece in kept)]
        if (cfg.checkpoint / TASK_FILE).is_file():
            tuned = tune.load_tuned(cfg.checkpoint)
            encoder, num_pieces_before = tuned.model.encoder, tuned.model.encoder.tokens.num_embeddings
            rows = torch.tensor([*piece_ids, *range(mask_id, num_pieces_before)])
            weight = encoder.tokens.weight[rows].detach().clone()
            encoder.tokens = nn.Embedding.from_pretrained(weight, padding_idx=PAD)
            langs = model_weights.read_published(cfg.checkpoint / TASK_FILE, TASK)["langs"]
            tune.save_tuned(
                replace(tuned, processor=vocab.load_processor(vocabulary_folder)),
                publication.path,
                vocabulary_folder,
                langs,
            )
        else:
            model, langs = _load_model(cfg.checkpoint)
            num_pieces_before = model.encoder.tokens.num_embeddings
            rows = torch.tensor([*piece_ids, *range(mask_id, num_pieces_before)])
            small_model = type(model)(
                model.cfg, len(rows), len(langs) if model.encoder.langs is not None else 0
            )
            state = model.state_dict()
            for name in {*model_weights.BY_TOKEN, *model_weights.TIED} & state.keys():
                state[name] = state[name][rows]
            small_model.load_state_dict(state)
            vocab.copy_vocabulary(vocabulary_folder, publication.path)
            sentence.copy_head(cfg.checkpoint, publication.path)
            model_weights.save_model(publication.path / "model.pt", small_model, langs, publication.path)
        publication.counts |= tag_marks(cfg.checkpoint) | {
            "langs": langs,
            "vocabulary_before": num_pieces_before,
            "vocabulary": len(rows),
        }
    return manifest.read(cfg.out)


def _load_model(directory: Path) -> tuple[EncoderModel, list[str]]:
    if model_weights.has_decoder(directory):
        model, symbols = model_weights.load_seq2seq(directory)
        return model, list(symbols.langs)
    return model_weights.load_model(directory)


def find_kept_pieces(folder: Path, corpora: dict[str, tuple[str, ...]], min_uses: int = 1) -> list[int]:
    """Return the ids of the pieces to keep, in SentencePiece's numbering, ascending.

    Kept are the pieces used ``min_uses`` times (for a BPE vocabulary also those that merges pass through) and
    every character of the text that is a piece. The piece with the lowest score is kept too: it determines
    the cost of an unknown character.

    Raises:
        UserError: a language has no text.
    """
    processor = vocab.load_processor(folder)
    num_uses = np.zeros(processor.get_piece_size(), dtype=np.int64)
    chars: set[str] = set()
    for lang, paths in corpora.items():
        num_lines = 0
        for lines in _batches(line for doc in corpus_reader.read_documents(paths) for line in doc):
            num_lines += len(lines)
            for line, ids in zip(lines, processor.encode(lines), strict=True):
                num_uses += np.bincount(ids, minlength=len(num_uses))
                chars.update(processor.normalize(line))
        if not num_lines:
            raise UserError(f"corpora.{lang}={','.join(paths)} holds no text", fix=f"leave {lang} out")
    num_specials = tokenizer.NUM_SPM_SPECIALS
    scores = [processor.get_score(i) for i in range(num_specials, len(num_uses))]
    kept_ids = set((num_uses >= min_uses).nonzero()[0].tolist()) | {num_specials + int(np.argmin(scores))}
    kept_ids |= {processor.piece_to_id(char) for char in chars}
    kept_ids |= {piece for piece in range(len(num_uses)) if processor.is_byte(piece)}  # all 256, or none
    if tokenizer.read_spm_model(folder / "spm.model").trainer_spec.model_type == tokenizer.BPE_MODEL:
        kept_ids = add_merge_pieces(kept_ids, processor)
    return sorted(piece for piece in kept_ids if piece >= num_specials)


def add_merge_pieces(kept_pieces: set[int], processor: Any) -> set[int]:
    """Add the pieces that byte-pair merges may pass through on the way to the kept ones."""
    reached, queue, unknown_id = set(kept_pieces), list(kept_pieces), processor.unk_id()
    while queue:
        piece = processor.id_to_piece(queue.pop())
        for position in range(1, len(piece)):
            parts = {processor.piece_to_id(piece[:position]), processor.piece_to_id(piece[position:])}
            if unknown_id not in parts:
                queue += parts - reached
                reached |= parts
    return reached


def _batches(lines: Iterable[str]) -> Iterable[list[str]]:
    batch: list[str] = []
    for line in lines:
        batch.append(line)
        if len(batch) == LINES_PER_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def write_vocabulary(folder: Path, out: Path, kept_pieces: list[int]) -> None:
    """Write ``spm.model`` and ``dict.txt`` with the three specials of SentencePiece and the pieces ``kept_pieces``."""
    model = tokenizer.read_spm_model(folder / "spm.model")
    pieces = [model.pieces[i] for i in [*range(tokenizer.NUM_SPM_SPECIALS), *kept_pieces]]
    copies = [type(piece).FromString(piece.SerializeToString()) for piece in pieces]
    del model.pieces[:]
    model.pieces.extend(copies)
    model.trainer_spec.vocab_size = len(copies)
    files.vocabulary_from_spm(model).write(out)
