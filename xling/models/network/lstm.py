"""Bidirectional LSTMs on packed sequences, in place of the layers of an encoder; see `xling.models.parts.arch`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import rnn

from xling.array_types import Float
from xling.core.errors import UserError
from xling.models.network.attention import Attention
from xling.models.network.blocks import sequence_lengths
from xling.models.network.dropout import dropout


class BiLSTM(nn.Module):
    """One layer: half of each state has read its sequence forwards, the other half backwards.

    Args:
        dim: size of a state, an even number.
        rate: dropout of the states.
    """

    def __init__(self, dim: int, rate: float) -> None:
        super().__init__()
        self.lstm, self.dropout = nn.LSTM(dim, dim // 2, bidirectional=True), rate
        self.adapters = nn.ModuleDict()

    def forward(self, x: Float[Tensor, "tokens dim"], attention: Attention) -> Float[Tensor, "tokens dim"]:
        """Map (N, D) -> (N, D); of the attention only the sequences are used.

        Raises:
            UserError: tokens are hidden from others of their sequence.
        """
        if attention.causal or attention.sees is not None:
            raise UserError(
                "model.arch=bilstm with an objective that hides tokens of a text from others",
                "mmlm, tlm, translation or another whose tokens see all of their text",
            )
        sequences = rnn.pack_sequence(x.split(sequence_lengths(attention.runs)), enforce_sorted=False)
        states = torch.cat(rnn.unpack_sequence(self.lstm(sequences)[0]))
        return dropout(states, self.dropout, self.training)


def replace_layers(side: Any) -> None:
    """Put LSTMs in place of an encoder's layers and take its positions away."""
    side.positions = None
    side.layers = nn.ModuleList(BiLSTM(side.cfg.dim, side.cfg.dropout) for _ in range(side.cfg.layers))
