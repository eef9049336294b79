"""Back-translation masked LM (ERNIE-M).

The model appends a pseudo-translation to monolingual text and learns from both.

Stage 1, without gradients: ``<s> x </s> </s> <mask>... </s>`` with as many masks as x has tokens. With the
attention of CAMLM every mask sees x and itself, and all are filled at once with the most probable pieces.
Stage 2: masked LM on x next to the pseudo-translation, with full attention.

Source: Ouyang et al. 2021, section 3.3; only x is masked and predicted. Our choices:

- The other language is drawn each time from those that share a pair with x's language in the data, else from
  all others.
- Only pieces that occur in that language's training text are candidates, since without language embeddings
  nothing else names the language.
- Dropout is off in stage 1.

The objective is useful after CAMLM training, or combined with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Bool, Int, Integer
from xling.core.languages import split_pair
from xling.data.masking import MaskRule
from xling.data.packing import Example, pack
from xling.objectives.base import EOS, FIRST_PIECE, Loss, Objective, ObjectiveDataset, objective
from xling.objectives.camlm import NOBODY
from xling.objectives.contract_facts import Trial
from xling.objectives.mmlm import Block, BlockDataset, masked, masked_loss, rule_of
from xling.text.files import shards

SAMPLE = 10_000_000  # number of tokens of a language's text that are searched for its pieces

LOGITS_BYTES = 64 << 20


def example(
    tokens: Int[np.ndarray, " length"],
    langs: Int[np.ndarray, " length"],
    other: int,
    rule: MaskRule,
    restart: bool,
    generator: np.random.Generator,
) -> Example:
    """Build an example from one block, with space for its pseudo-translation.

    Args:
        restart: whether the positions of the second side start at 0.

    Returns:
        For stage 2 ``tokens``, ``positions``, ``langs``, ``segments`` (2n + 4,), ``chosen`` and ``target``
        (M,), all in x; for stage 1 ``clean`` (2n + 4,) and ``blanks`` (n,), the positions to fill.
    """
    length, num = len(tokens) + 1, len(tokens) - 1
    first = np.concatenate([tokens, [EOS]])
    second = np.concatenate([[EOS], np.full(num, rule.mask_id), [EOS]])
    built, start = masked(first, rule, generator), 0 if restart else length
    return built | {
        "tokens": np.concatenate([built["tokens"], second]),
        "positions": np.concatenate([np.arange(length), start + np.arange(len(second))]),
        "langs": np.concatenate([langs, langs[-1:], np.full(len(second), other)]),
        "segments": np.repeat([0, 1], [length, len(second)]),
        "clean": np.concatenate([first, second]),
        "blanks": length + 1 + np.arange(num),
    }


class PseudoDataset(BlockDataset):
    """Dataset of blocks packed twice in the same order: for filling (stage 1) and for learning (stage 2)."""

    def stream_tokens(self, room: int) -> int:
        """Return half the room without the four specials."""
        return (room - 4) // 2

    def example_tokens(self, num: Integer[np.ndarray, " draws"]) -> Integer[np.ndarray, " draws"]:
        """Count x, as many blanks, and four specials."""
        return 2 * num + 4

    def collater(self, samples: list[Any]) -> dict[str, Any]:
        """Build the batch of stage 2, with that of stage 1 as ``blank``."""
        return pack(samples) | {"blank": pack([_to_fill(e) for e in samples])}


def _to_fill(example: Example) -> Example:
    """Build the stage 1 example: blanks see the first side, and no token sees a blank."""
    second = np.arange(len(example["clean"])) >= example["blanks"][0] - 1
    sees, shows = second.astype(np.int64), second.astype(np.int64)
    sees[example["blanks"]], shows[example["blanks"]] = 0, NOBODY
    return {
        "id": example["id"],
        "tokens": example["clean"],
        "positions": example["positions"],
        "langs": example["langs"],
        "segments": example["segments"],
        "sees": sees,
        "shows": shows,
        "chosen": example["blanks"],
        "target": example["clean"][example["blanks"]],
    }


class Pieces(nn.Module):
    """Pieces that occur in the text of each language: ``seen``, bool (num_langs, vocabulary)."""

    def __init__(self, seen: Bool[Tensor, "langs vocab"]) -> None:
        super().__init__()
        self.seen: Tensor
        self.register_buffer("seen", seen)


@objective("btmlm")
class Btmlm(Objective):
    """The BTMLM objective: masked LM next to the model's own translation."""

    trial = Trial(mixed_with=("mmlm", "camlm"), changes=("context",))

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of blocks of a split."""
        rule, others = rule_of(self.cfg, self.dictionary), other_langs(self.langs, shards.list_pairs(data))

        def build(block: Block) -> Example:
            choices = others[int(block.langs[0])]
            other = choices[int(block.generator.integers(len(choices)))]
            return example(
                block.tokens, block.langs, other, rule, self.cfg.restart_positions, block.generator
            )

        return PseudoDataset(self.cfg, data, split, self.langs, "btmlm", build)

    def modules(self, model: Any) -> nn.Module:
        """Create the table of each language's pieces."""
        seen = torch.zeros(len(self.langs), len(self.dictionary), dtype=torch.bool)
        for index, lang in enumerate(self.langs):
            tokens = shards.open_shard(Path(self.cfg.data) / lang / "train").tokens[:SAMPLE]
            seen[index, torch.from_numpy(np.unique(tokens).astype(np.int64))] = True
        seen[:, :FIRST_PIECE] = False
        return Pieces(seen)

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Return the cross-entropy at the chosen positions of x, given the pseudo-translation."""
        blank, inputs = sample["blank"], sample["net_input"]
        tokens = inputs["src_tokens"].clone()
        tokens[blank["chosen"]] = fill(model, blank, model.extras["btmlm"].seen)
        return masked_loss(model, sample | {"net_input": inputs | {"src_tokens": tokens}})


def other_langs(langs: list[str], pairs: list[str]) -> list[list[int]]:
    """Return for each language the languages to translate into."""
    others = []
    for lang in langs:
        partners = {side for pair in pairs if lang in split_pair(pair) for side in split_pair(pair)} - {lang}
        names = [other for other in langs if other in partners] or [o for o in langs if o != lang]
        others.append([langs.index(name) for name in names])
    return others


@torch.no_grad()
def fill(model: Any, blank: dict[str, Any], seen: Bool[Tensor, "langs vocab"]) -> Int[Tensor, " blanks"]:
    """Return the most probable piece of its language at each blank, int64 (num_blanks,), computing logits in chunks."""
    was_training = model.encoder.training
    model.encoder.eval()
    rows = blank["chosen"]
    hidden = model.lm_head.transform(model(**blank["net_input"])[rows])
    model.encoder.train(was_training)
    langs = blank["net_input"]["langs"][rows]
    head, best = model.lm_head, []
    step = max(1, LOGITS_BYTES // (4 * len(head.weight)))
    for part, lang in zip(hidden.split(step), langs.split(step), strict=True):
        logits = F.linear(part, head.weight, head.bias)
        best.append(logits.masked_fill(~seen[lang], -torch.inf).argmax(-1))
    return torch.cat(best)
