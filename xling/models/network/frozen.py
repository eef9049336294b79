"""A frozen encoder that a model with a decoder reads its sources with: fused attention, or features as embeddings.

- ``fused``: every layer of both sides attends to the states of the frozen encoder too, and takes the mean of this
  attention and its own: self-attention in the encoder, attention to the source in the decoder. In training one of the
  two is taken at random, each time and for each layer (drop-net with rate 1).
- ``features``: the states of the frozen encoder, projected, take the place of the word vectors of the source.

The frozen encoder has the vocabulary of the model, reads ``<s>`` where a source has the token of its language, and is
not part of the model file, which names its folder.

Sources: Zhu et al. 2020, equations 1 to 5 and section 3.3; Edunov et al. 2019, section 2 (SRC-ELMO).
"""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from xling.array_types import Float, Int
from xling.core.errors import UserError
from xling.core.registry import load
from xling.data.packing import cross_runs
from xling.models.network.attention import Attention, attend
from xling.models.network.blocks import sequence_lengths
from xling.models.network.encoder import scale_embeddings

BOS = 0


class Frozen(nn.Module):
    """The states of the frozen encoder for the sources of the last batch, and which targets read which of them.

    Attributes:
        states: (N, E) of the sources.
        ids: ids of the sources, (N,).
    """

    states: Float[Tensor, "tokens frozen_dim"]
    encoder: Any

    def __init__(self, directory: Path, model: Any) -> None:
        super().__init__()
        if not (directory / "model.pt").is_file():
            raise UserError(
                f"the model reads a frozen encoder at {directory}, and there is none",
                "the folder that its training named",
                "run the command from the folder of the training, or put the encoder back",
            )
        files = "xling.models.files.model_weights"
        frozen = load(f"{files}:load_model")(directory)[0].requires_grad_(False).eval()
        if getattr(frozen.encoder, "langs", None) is not None:
            raise UserError(
                f"the frozen encoder {directory} has language embeddings", "an encoder without them"
            )
        if model.cfg.max_positions > frozen.cfg.max_positions:
            raise UserError(
                f"model.max_positions={model.cfg.max_positions} with the frozen encoder {directory}, "
                f"which has {frozen.cfg.max_positions}",
                f"at most {frozen.cfg.max_positions}",
            )
        self.__dict__["encoder"] = frozen.encoder  # not registered: it neither learns nor is saved
        self.dim, self.mask = int(frozen.cfg.dim), int(load(f"{files}:mask_of")(directory))
        self.lengths: list[int] = []
        self.pairs: list[tuple[int, int]] = []
        self.rows: Tensor | None = None
        model.encoder.register_forward_pre_hook(self.read, with_kwargs=True)
        model.decoder.register_forward_pre_hook(self.face)

    def read(self, encoder: Any, args: Any, kwargs: Any) -> None:
        """Compute the states of the sources before the model's encoder reads them; a hook."""
        ids, positions, runs = args or (kwargs[name] for name in ("src_tokens", "positions", "runs"))
        self.encoder.to(encoder.tokens.weight)
        with torch.no_grad():
            self.states = self.encoder(torch.where(ids > self.mask, BOS, ids), positions, runs).detach()
        self.ids, self.lengths = ids, sequence_lengths(runs)
        self.rows, self.pairs = None, [(length, length) for length in self.lengths]

    def face(self, decoder: Any, args: Any) -> None:
        """Note how long the targets are that face the sources of a batch; a hook."""
        targets = [target for count, target, _ in args[5] for _ in range(count)]
        self.rows, self.pairs = None, list(zip(self.lengths, targets, strict=True))

    def select(self, sources: list[int], width: int) -> None:
        """Let ``width`` hypotheses of each of these sources read it in a step of a search."""
        starts = [0, *accumulate(self.lengths)]
        self.rows = torch.cat([torch.arange(starts[i], starts[i + 1]) for i in sources]).to(self.ids.device)
        self.pairs = [(self.lengths[i], width) for i in sources]

    def facing(self, of_decoder: bool) -> tuple[Float[Tensor, "sources frozen_dim"], Attention]:
        """Return the states that a layer attends to, and which of its tokens attend to which."""
        pairs = self.pairs if of_decoder else [(length, length) for length in self.lengths]
        runs = cross_runs(pairs)
        states = self.states if self.rows is None or not of_decoder else self.states[self.rows]
        return states, Attention([run[:2] for run in runs], keys=[run[::2] for run in runs])


class Fusion(nn.Module):
    """Attention of one layer to the frozen states, mixed with what its own attention gives."""

    frozen: Frozen
    asking: Float[Tensor, "tokens dim"]

    def __init__(self, frozen: Frozen, layer: Any, dim: int) -> None:
        super().__init__()
        inner, self.heads = layer.out.in_features, layer.heads
        self.__dict__["frozen"], self.of_decoder = frozen, hasattr(layer, "cross_out")
        self.query, self.kv = nn.Linear(dim, inner), nn.Linear(frozen.dim, 2 * inner)
        self.out = nn.Linear(inner, dim)
        for part in (self.query, self.kv, self.out):
            nn.init.normal_(part.weight, std=0.02)
            nn.init.zeros_(part.bias)
        asks, answers = (layer.cross_query, layer.cross_out) if self.of_decoder else (layer.qkv, layer.out)
        asks.register_forward_pre_hook(self.remember)
        answers.register_forward_hook(self.mix)

    def remember(self, _: Any, args: Any) -> None:
        """Keep the states that the layer's own attention asks with; a hook."""
        self.__dict__["asking"] = args[0]

    def mix(self, _: Any, args: Any, own: Float[Tensor, "tokens dim"]) -> Float[Tensor, "tokens dim"]:
        """Return the mean of both attentions, in training one of the two at random; a hook."""
        states, attention = self.frozen.facing(self.of_decoder)
        query = self.query(self.asking).view(len(own), self.heads, -1)
        key, value = self.kv(states).view(len(states), 2, self.heads, -1).unbind(1)
        other = self.out(attend(query, key, value, attention))
        share = (
            float(torch.rand(()) < 0.5) if self.training else 0.5
        )  # multiplied, so that all weights have gradients
        return share * own + (1 - share) * other


class Features(nn.Module):
    """Projected frozen states in place of the word vectors of a source; tokens of languages keep theirs."""

    frozen: Frozen
    side: Any

    def __init__(self, frozen: Frozen, encoder: Any) -> None:
        super().__init__()
        self.__dict__["frozen"], self.__dict__["side"] = frozen, encoder
        self.map = nn.Linear(frozen.dim, encoder.cfg.dim)
        nn.init.normal_(self.map.weight, std=0.02)
        nn.init.zeros_(self.map.bias)

    def forward(
        self,
        x: Float[Tensor, "tokens dim"],
        positions: Int[Tensor, " tokens"],
        langs: Int[Tensor, " tokens"] | None,
    ) -> Float[Tensor, "tokens dim"]:
        """Change the sum of the embeddings (N, D) of a source."""
        ids = self.frozen.ids
        words = scale_embeddings(self.side.tokens(ids), self.side.cfg)
        return x + (self.map(self.frozen.states) - words) * (ids <= self.frozen.mask)[:, None]


def fuse(model: Any, directory: str) -> None:
    """Let every layer of a model attend to a frozen encoder too; layers that are one share this attention as well."""
    model.fused = Frozen(Path(directory), model)
    for layer in dict.fromkeys((*model.encoder.layers, *model.decoder.layers)):
        layer.fused = Fusion(model.fused, layer, model.cfg.dim)


def read_features(model: Any, directory: str) -> None:
    """Let the states of a frozen encoder take the place of the word vectors of the sources."""
    model.encoder.inputs.append(Features(Frozen(Path(directory), model), model.encoder))
