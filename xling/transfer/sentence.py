"""Sentence vectors as a model of sentence-transformers declares them: pooling, dense layers, norms and a prompt.

Source: `sentence_transformers`, the modules Pooling, Dense, LayerNorm and Normalize.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Float, Shaped
from xling.core.errors import UserError
from xling.models.files.model_folder import SENTENCE_FILE
from xling.models.files.model_weights import check_finite


@dataclass(frozen=True)
class SentenceSettings:
    """Settings of sentence vectors that a model declares.

    Attributes:
        poolings: ``cls``, ``max``, ``mean``, ``mean_sqrt_len_tokens``, ``weightedmean`` or ``lasttoken``; the vectors
            of several are joined.
        layers: what follows, in order: ``dense``, ``layer_norm``, ``normalize`` or ``truncate``, with their settings.
        max_length: sub-tokens of a text that are read, with its specials; 0 for all positions of the model.
        prompt: text that is put before every other.
        pools_prompt: whether the prompt's states are pooled too.
        pools_specials: whether the states of the specials are.
        lower: whether texts are lower-cased first.
    """

    poolings: tuple[str, ...]
    layers: tuple[Mapping[str, Any], ...] = ()
    max_length: int = 0
    prompt: str = ""
    pools_prompt: bool = True
    pools_specials: bool = True
    lower: bool = False

    @property
    def name(self) -> str:
        """Return how vectors are made, for signatures, for example ``own(cls,dense,normalize)``."""
        parts = [*self.poolings, *(each["kind"] for each in self.layers)]
        return f"own({','.join(parts + ['prompt'] * bool(self.prompt))})"


class SentenceHead(nn.Module):
    """The layers that turn the states of a text into its vector."""

    def __init__(self, settings: SentenceSettings, dim: int) -> None:
        super().__init__()
        self.settings = settings
        self.layers = nn.ModuleDict()
        width = dim * len(settings.poolings)
        for number, layer in enumerate(settings.layers):
            if layer["kind"] == "dense":
                self.layers[str(number)] = _Dense(layer)
                width = layer["out"]
            elif layer["kind"] == "layer_norm":
                self.layers[str(number)] = nn.LayerNorm(width)
            elif layer["kind"] == "truncate":
                width = min(width, layer["out"])
        self.width = width  # of a vector

    def prepare(self, text: str) -> str:
        """Return a text as the model reads it, with its prompt."""
        text = self.settings.prompt + text
        return "".join(map(str.lower, text)) if self.settings.lower else text

    def forward(self, states: Float[Tensor, "length dim"], num_prompt: int) -> Float[Tensor, " out"]:
        """Return the vector of a text.

        Args:
            states: of all sub-tokens, with the specials at both ends.
            num_prompt: sub-tokens of the begin and the prompt; nothing is left out if the model has no prompt.
        """
        pools_all = self.settings.pools_prompt or not self.settings.prompt
        # A prompt that fills the model's length is cut before the end, as sentence-transformers cuts and counts it.
        first = 0 if pools_all else min(num_prompt, len(states) - 1)
        kept, weights = states[first:], torch.arange(first + 1, len(states) + 1, dtype=states.dtype)
        if not self.settings.pools_specials and len(kept) > 2:
            kept, weights = kept[1:-1], weights[1:-1]
        pooled = [_pool(kept, weights, name) for name in self.settings.poolings]
        vector = torch.cat(pooled)
        for number, layer in enumerate(self.settings.layers):
            if layer["kind"] == "normalize":
                vector = F.normalize(vector, dim=-1)
            elif layer["kind"] == "truncate":
                vector = vector[: layer["out"]]
            else:
                vector = self.layers[str(number)](vector)
        return vector


class _Dense(nn.Module):
    """A linear layer with its activation, and what it reads added if it is residual."""

    def __init__(self, layer: Mapping[str, Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(layer["in"], layer["out"], bias=layer["bias"])
        self.activation: nn.Module = getattr(nn, layer["activation"])()
        self.is_residual = layer["residual"]
        if self.is_residual and layer["in"] != layer["out"]:
            self.residual = nn.Linear(layer["in"], layer["out"], bias=False)

    def forward(self, vector: Float[Tensor, " in"]) -> Float[Tensor, " out"]:
        activated: Tensor = self.activation(self.linear(vector))
        if not self.is_residual:
            return activated
        return activated + (self.residual(vector) if hasattr(self, "residual") else vector)


def _pool(states: Tensor, weights: Tensor, name: str) -> Tensor:
    """Pool (length, D) -> (D,); ``weights`` (length,) are the places of the states in their text, from 1."""
    if name in ("cls", "lasttoken"):
        return states[0 if name == "cls" else -1]
    if name == "max":
        return states.max(0).values
    if name == "weightedmean":
        return (states * weights[:, None]).sum(0) / weights.sum()
    total = states.sum(0)
    return total / (len(states) if name == "mean" else len(states) ** 0.5)


def write_head(settings: SentenceSettings, weights: Mapping[str, Shaped[Tensor, " ..."]], out: Path) -> None:
    """Write `SENTENCE_FILE` into ``out``: plain settings, and weights in float32."""
    plain = asdict(settings) | {"poolings": list(settings.poolings), "layers": [*map(dict, settings.layers)]}
    tensors = {name: tensor.detach().float() for name, tensor in weights.items()}
    torch.save({"settings": plain, "weights": tensors}, out / SENTENCE_FILE)


def read_head(directory: Path, dim: int, random_init: bool = False) -> SentenceHead | None:
    """Read what a model declares about its sentence vectors; None if it declares nothing.

    Args:
        random_init: keep fresh weights, for the control.

    Raises:
        UserError: the file is damaged.
    """
    if (read := _read(directory)) is None:
        return None
    check_finite(read[1], directory / SENTENCE_FILE)
    head = SentenceHead(read[0], dim)
    if not random_init:
        head.load_state_dict(read[1])
    return head.requires_grad_(False).eval()


def read_settings(directory: Path) -> SentenceSettings | None:
    """Read the settings alone; as `read_head`."""
    read = _read(directory)
    return read[0] if read else None


def _read(directory: Path) -> tuple[SentenceSettings, dict[str, Tensor]] | None:
    path = directory / SENTENCE_FILE
    if not path.is_file():
        return None
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        values = content["settings"]
        sequences = {name: tuple(values[name]) for name in ("poolings", "layers")}
        return SentenceSettings(**values | sequences), content["weights"]
    except Exception as error:
        raise UserError(
            f"{path} is damaged: {str(error).splitlines()[0]}", fix="import the model again"
        ) from None


def copy_head(source: Path, out: Path) -> None:
    """Copy `SENTENCE_FILE` of a model into ``out``; nothing if it has none."""
    if (source / SENTENCE_FILE).is_file():
        (out / SENTENCE_FILE).write_bytes((source / SENTENCE_FILE).read_bytes())
