"""A small neural language model of characters: one LSTM layer, trained until its own held-out part gets no better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

WIDTH, HIDDEN, DROPOUT, LR = 64, 256, 0.2, 4e-3
NUM_STREAMS, WINDOW = 16, 64
MAX_EPOCHS, PATIENCE, HELD_SHARE = 30, 2, 0.05
BATCH = 32


class CharModel(nn.Module):
    """Predicts the next character of a line; a newline begins and ends it.

    Args:
        known: every character that the model can read.
    """

    def __init__(self, known: str) -> None:
        super().__init__()
        self.ids = {char: i for i, char in enumerate(["\n", *known])}
        self.embed = nn.Embedding(len(self.ids), WIDTH)
        self.lstm = nn.LSTM(WIDTH, HIDDEN, batch_first=True)
        self.drop = nn.Dropout(DROPOUT)
        self.out = nn.Linear(HIDDEN, len(self.ids))

    def of_text(self, text: str) -> Tensor:
        """Return the numbers of the characters, int64 ``(num_chars,)``."""
        return torch.tensor([self.ids[char] for char in text])

    def padded(self, lines: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the numbers of lines with a newline on both sides, ``(num_lines, longest)``, and their lengths."""
        rows = [self.of_text(f"\n{line}\n") for line in lines]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])


def learned(lines: Sequence[str], known: str, seed: int) -> CharModel:
    """Train a model on the lines, of which the last twentieth decides when to stop."""
    torch.manual_seed(seed)
    model = CharModel(known)
    stream = model.of_text("\n" + "\n".join(lines) + "\n")
    num_held = max(2, int(len(stream) * HELD_SHARE))
    train, held = stream[:-num_held], stream[-num_held:]
    rows = train[: len(train) // NUM_STREAMS * NUM_STREAMS].view(NUM_STREAMS, -1)
    optimizer = torch.optim.Adam(model.parameters(), LR)
    best, since, kept = float("inf"), 0, model.state_dict()
    for _ in range(MAX_EPOCHS):
        model.train()
        state = None
        for start in range(0, rows.shape[1] - 1, WINDOW):
            window = rows[:, start : start + WINDOW + 1]
            hidden, state = model.lstm(model.drop(model.embed(window[:, :-1])), state)
            state = (state[0].detach(), state[1].detach())
            loss = nn.functional.cross_entropy(
                model.out(model.drop(hidden)).flatten(0, 1), window[:, 1:].flatten()
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            hidden, _ = model.lstm(model.embed(held[None, :-1]))
            loss_held = float(nn.functional.cross_entropy(model.out(hidden)[0], held[1:]))
        since += 1
        if loss_held < best:
            best, since, kept = loss_held, 0, {name: x.clone() for name, x in model.state_dict().items()}
        if since == PATIENCE:
            break
    model.load_state_dict(kept)
    return model.eval()


@torch.no_grad()
def bits_of(model: CharModel, lines: Sequence[str]) -> NDArray[np.float64]:
    """Return the bits of each line, its end included, ``(num_lines,)``."""
    result = np.zeros(len(lines))
    order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
    for first in range(0, len(order), BATCH):
        places = order[first : first + BATCH]
        ids, lengths = model.padded([lines[i] for i in places])
        logits = model.out(model.lstm(model.embed(ids[:, :-1]))[0])
        nats = nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
        is_text = torch.arange(nats.shape[1]) < lengths[:, None] - 1
        result[places] = (nats * is_text).sum(1).double().numpy() / np.log(2)
    return result


@torch.no_grad()
def _vectors(model: CharModel, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the mean state of each text, characters that the model does not know left out."""
    means = []
    for text in texts:
        ids = model.of_text("\n" + "".join(char for char in text if char in model.ids))
        means.append(model.lstm(model.embed(ids[None]))[0][0].mean(0))
    return torch.stack(means).numpy()


def classified(
    model: CharModel, train: Sequence[tuple[str, str]], test: Sequence[tuple[str, str]]
) -> NDArray[np.bool_]:
    """Return which test rows ``(text, class)`` a regression on mean states gets right, ``(num_rows,)``."""
    x, y = _vectors(model, [text for text, _ in train]), _vectors(model, [text for text, _ in test])
    mean, scale = x.mean(0), x.std(0) + 1e-6
    fitted = LogisticRegression(C=0.1, max_iter=500).fit((x - mean) / scale, [label for _, label in train])
    return fitted.predict((y - mean) / scale) == np.array([label for _, label in test])
