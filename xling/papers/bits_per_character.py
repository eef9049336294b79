"""``xling analyse bits``: the loss of a forward and a backward language model, in bits a character.

Losses of models with other vocabularies compare by character only. A line is read from ``<s>`` and ends in ``</s>``,
which counts as one character: the end of the line. Lines longer than the model reads are cut, and only the characters
of what is read count. Mulcaire et al. 2019 report no such number.
"""

import json
import math
from typing import Any

import numpy as np
import torch

from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.data.packing import pack
from xling.models.files import model_weights
from xling.papers.bilm import example, loss_of
from xling.papers.bits_per_character_settings import BitsConfig, check
from xling.text import vocab
from xling.text.files import corpus_reader
from xling.transfer import tune
from xling.transfer.encode import BOS, EOS, encode_pieces

STAGE = "analyse bits"
_BATCH_TOKENS = 4096


def run(cfg: BitsConfig) -> Answer:
    """Measure the bits a character of a language model and publish them.

    Raises:
        UserError: no text is named, a file has none, or the model is not one of this objective.
    """
    check(cfg)
    inputs = [
        cfg.checkpoint,
        *(path for paths in cfg.text.values() for path in corpus_reader.resolve_files(paths)),
    ]
    if not manifest.up_to_date(cfg.out, STAGE, cfg, inputs):
        bits = {lang: _bits(cfg, lang, paths) for lang, paths in cfg.text.items()}
        with manifest.publish(cfg.out, STAGE, cfg, inputs) as publication:
            (publication.path / "bits.json").write_text(json.dumps(bits, indent=1) + "\n", encoding="utf-8")
    bits = json.loads((cfg.out / "bits.json").read_text(encoding="utf-8"))
    lines = [
        f"{lang}: {b['bits']:.3f} bits a character, [{b['low']:.3f}, {b['high']:.3f}] over {b['lines']} lines"
        for lang, b in bits.items()
    ]
    return Answer("\n".join(lines), bits)


def _bits(cfg: BitsConfig, lang: str, paths: tuple[str, ...]) -> dict[str, Any]:
    """Mean of both ways with the interval of 95 % over lines, and the number of lines and characters."""
    model, langs = model_weights.load_model(cfg.checkpoint)
    processor = vocab.load_processor(cfg.checkpoint)
    texts = [line for doc in corpus_reader.read_documents(paths) for line in doc][: cfg.lines or None]
    room = model.encoder.cfg.max_positions
    tokens = [[BOS, *encode_pieces(processor, text)[: room - 2], EOS] for text in texts]
    chars = np.array([_chars(processor, text, room - 2) + 1 for text in texts], dtype=float)
    nats = np.zeros((len(texts), 2))
    code = model_weights.language_index(model, langs, lang, cfg.checkpoint)
    model.eval()
    with torch.inference_mode():
        for batch in tune.batches_by_tokens([len(t) for t in tokens], _BATCH_TOKENS):
            sample = pack([_row(index, tokens[index], code) for index in batch])
            losses = loss_of(model, sample).rows.split(sample["num_chosen"])
            for index, rows in zip(sample["id"].tolist(), losses, strict=True):
                # The last of the backward losses is that of what stands before the first piece: <s>, always.
                ahead, back = rows.chunk(2)
                nats[index] = ahead.sum().item(), back[1:].sum().item()
    each = nats.mean(axis=1) / math.log(2)
    bits = float(each.sum() / chars.sum())
    half = 1.96 * float(np.std(each - bits * chars)) * len(texts) ** 0.5 / float(chars.sum())
    ways = (nats.sum(axis=0) / math.log(2) / chars.sum()).tolist()
    return {
        "bits": bits, "low": bits - half, "high": bits + half, "forward": ways[0], "backward": ways[1],
        "lines": len(texts), "characters": int(chars.sum()),
    }  # fmt: skip


def _chars(processor: Any, text: str, room: int) -> int:
    """Characters of a text that its first ``room`` pieces hold."""
    ids = processor.encode(text)
    return len(text) if len(ids) <= room else len(processor.decode(ids[:room]))


def _row(index: int, tokens: list[int], lang: int) -> dict[str, np.ndarray]:
    row = example(np.array(tokens))
    more = {"id": np.array([index]), "langs": np.full(len(tokens), lang)}
    return row | more | {"target_langs": np.full(len(row["target"]), lang)}
