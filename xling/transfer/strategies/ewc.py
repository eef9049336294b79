"""Elastic weight consolidation (Kirkpatrick et al. 2017, equation 3): what the old task needs is held most.

The loss of the new task gets ``strength / 2 * sum_i F_i * (w_i - start_i) ** 2`` over the weights of the encoder. F is
the diagonal of the Fisher information of the old task: the mean over its texts of the squared gradient of one text's
log-likelihood, with labels drawn from the model itself. The old task is masked language modelling, or what a fine-tuned
model was fine-tuned for; its texts, without labels, are ``fit.old_text``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from xling.array_types import Float, Int64
from xling.core.errors import UserError
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.data.packing import pack, sequence
from xling.models.files.model_folder import is_fine_tuned
from xling.text.files import corpus_reader
from xling.text.files.compressed import MAX_CELL_BYTES
from xling.transfer import tune
from xling.transfer.encode import BOS, EOS, UnlabelledRow, encode_pieces
from xling.transfer.likelihood import MaskedLM
from xling.transfer.strategy import STRATEGIES, Start, Strategy

MASKED = 0.15
"""Share of the sub-words of a text that are masked."""
COLUMNS = {"classify": ("text",), "pair": ("text_a", "text_b"), "tag": ("tokens",)}
"""Task -> the cells of a line of ``fit.old_text``, which tabs separate; words are separated by blanks."""


class ElasticWeights(Strategy):
    """A pull to the start, for each weight as strong as the old task needs it."""

    name = "ewc"

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        with torch.random.fork_rng():  # the training draws as it does without
            importance = fisher_information(start)
        self._held = [
            (master, master.detach().clone(), importance[name].to(master.device))
            for name, master in start.masters.items()
            if name in importance
        ]

    @torch.no_grad()
    def add_gradients(self) -> None:
        """Add ``strength * F * (w - start)``."""
        for master, start, importance in self._held:
            if master.grad is not None:
                master.grad.add_(importance * (master - start), alpha=self.strength)


def fisher_information(start: Start) -> dict[str, Float[Tensor, "..."]]:
    """Return the diagonal of the Fisher information of the old task for each weight of the encoder, by name.

    Raises:
        UserError: there is no text, the model has no LM head, or its task cannot be read from lines of text.
    """
    path = Path(start.cfg.old_text)
    texts = (line for line in corpus_reader.read_lines(path, MAX_CELL_BYTES) if line.strip())
    lines = list(itertools.islice(texts, start.cfg.old_rows))
    if not lines:
        raise UserError(f"fit.old_text={path} has no text", "a line for each text of the old task")
    draws = rng(start.cfg.seed, "fisher")
    if is_fine_tuned(start.ckpt):
        tuned = tune.load_tuned(start.ckpt, start.lang)
        return mean_squares(tuned.model, _of_task(tuned, lines, path, draws), len(lines))
    masked_lm = MaskedLM(start.ckpt)
    return mean_squares(masked_lm.model, _of_language(masked_lm, lines, start.lang, draws), len(lines))


def mean_squares(
    model: nn.Module, losses: Iterable[Float[Tensor, ""]], num: int
) -> dict[str, Float[Tensor, "..."]]:
    """Return the mean over ``num`` losses of the squared gradient of each weight of ``model.encoder``, by its name."""
    model.float().eval().requires_grad_(True)
    weights = {name: p for name, p in model.named_parameters() if name.startswith("encoder.")}
    sums = {name: torch.zeros_like(p) for name, p in weights.items()}
    with Progress("what the old task needs", num, "texts") as progress, torch.enable_grad():
        for loss in losses:
            model.zero_grad(set_to_none=True)
            loss.backward()
            for name, weight in weights.items():
                if weight.grad is not None:
                    sums[name].addcmul_(weight.grad, weight.grad, value=1 / num)
            progress.update(1)
    return sums


def _of_task(
    tuned: tune.TunedModel, lines: list[str], path: Path, draws: np.random.Generator
) -> Iterator[Tensor]:
    """Yield the negative log-likelihood of labels of each line that are drawn from the model."""
    columns = COLUMNS.get(tuned.model.task.name)
    if columns is None:
        raise UserError(
            f"fit.method=ewc from a model of {tuned.model.task.name}", f"one of {', '.join(COLUMNS)}"
        )
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if len(cells) != len(columns):
            raise UserError(
                f"fit.old_text={path} line {number}: {line[:40]!r}", f"{len(columns)} cells, between tabs"
            )
        fields: dict[str, Any] = dict(zip(columns, cells, strict=True))
        if "tokens" in fields:
            fields["tokens"] = tuple(fields["tokens"].split())
        windows = tuned.encode([UnlabelledRow(fields)], labelled=False)
        predicted = tuned.model.log_probabilities(pack([example for _, example in windows]))
        yield -predicted.gather(1, drawn(predicted, draws)[:, None]).sum()


def _of_language(
    masked_lm: MaskedLM, lines: list[str], lang: str, draws: np.random.Generator
) -> Iterator[Tensor]:
    """Yield the negative log-likelihood of masked sub-words of each line that are drawn from the model."""
    model, lang_index = masked_lm.model, masked_lm.lang_index(lang)
    for line in lines:
        pieces = encode_pieces(masked_lm.processor, line)[: model.encoder.cfg.max_positions - 2]
        tokens = np.array([BOS, *pieces, EOS])
        places = 1 + draws.permutation(len(pieces))[: max(1, round(MASKED * len(pieces)))]
        tokens[places] = masked_lm.mask_id
        sample = pack([sequence(tokens, lang_index, id=np.array([0]))])
        states = model.encoder(**sample["net_input"])[torch.from_numpy(places)]
        predicted = torch.log_softmax(model.lm_head.logits(states).float(), -1)
        yield -predicted.gather(1, drawn(predicted, draws)[:, None]).sum()


def drawn(
    log_probabilities: Float[Tensor, "rows classes"], draws: np.random.Generator
) -> Int64[Tensor, " rows"]:
    """Draw an index from each row of log-probabilities (M, K), int64 (M,), by the largest of Gumbel's noise."""
    noise = torch.from_numpy(draws.gumbel(size=tuple(log_probabilities.shape)))
    return (log_probabilities.detach().cpu().double() + noise).argmax(1).to(log_probabilities.device)


STRATEGIES.add(ElasticWeights.name, ElasticWeights)
