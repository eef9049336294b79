"""Two readers beside each other: one half of every state has read what comes before, the other what comes behind.

Each layer is two layers of half the width. The first attends to its token and those before it, the second to its
token and those behind it. Nothing is mixed between the halves, so the model is a forward and a backward language model
at once, and its states need no mask when a task reads them. ELMo's readers are LSTMs; ours are layers of this project.

Source: Peters et al. 2018, section 3 (both directions, their states side by side); Mulcaire et al. 2019 (in many
languages).
"""

from typing import Any

from xling.core.errors import UserError
from xling.models.model_setting import ENCODER, setting
from xling.models.parts import PARTS, Part


@PARTS.register("two_way")
class TwoWay(Part):
    """one half of the states reads forwards only and the other backwards only, for language models (ELMo)."""

    setting = setting(False, only=ENCODER)

    def check(self, cfg: Any, value: bool) -> None:
        """Raise UserError for widths or heads without halves, positions that are not learnt, or adapters."""
        if any(size % 2 for size in (cfg.dim, cfg.heads, cfg.ffn_dim)):
            raise UserError(
                f"model.two_way with dim={cfg.dim}, heads={cfg.heads}, ffn_dim={cfg.ffn_dim}",
                "even numbers, half for each direction",
            )
        if cfg.positions != "learnt" or cfg.lang_adapter or cfg.attention != "global":
            raise UserError(
                f"model.two_way with positions={cfg.positions}, attention={cfg.attention}, "
                f"lang_adapter={cfg.lang_adapter}",
                "positions=learnt, attention=global, lang_adapter=0",
            )

    def attach(self, side: Any, value: bool) -> None:
        """Put pairs of half as wide layers in place of the layers."""
        from torch import nn

        cfg = side.cfg
        output = type(side.layers[0])
        side.layers = nn.ModuleList(_pair(output, _Half(cfg), index) for index in range(cfg.layers))
        if cfg.pre_norm:
            side.final_norm = _norms([layer.ffn_norm for layer in side.layers[-1].ways])


class _Half:
    """A shape with half of every width."""

    def __init__(self, cfg: Any) -> None:
        self.cfg = cfg

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.cfg, name)
        return value // 2 if name in ("dim", "heads", "ffn_dim") else value


def _pair(layer: Any, half: Any, index: int) -> Any:
    """Build a layer from two of half the width, one a direction; ``layer`` is their class."""
    from dataclasses import replace

    import torch
    from torch import nn

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ways = nn.ModuleList(layer(half, index) for _ in range(2))
            self.adapters = nn.ModuleDict()
            for part in self.ways.modules():
                if isinstance(part, nn.Linear):
                    nn.init.normal_(part.weight, std=0.02)
                    if part.bias is not None:
                        nn.init.zeros_(part.bias)

        def forward(self, x: Any, how: Any) -> Any:
            before, behind = x.chunk(2, -1)
            order, how = turned(how.runs, x.device), replace(how, causal=True)
            return torch.cat([self.ways[0](before, how), self.ways[1](behind[order], how)[order]], -1)

    return Pair()


def _norms(like: Any) -> Any:
    """A norm for each half, as new as ``like``: one over both would tell each what the other has read."""
    import copy

    import torch
    from torch import nn

    class Norms(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ways = nn.ModuleList(map(copy.deepcopy, like))

        def forward(self, x: Any) -> Any:
            return torch.cat([norm(y) for norm, y in zip(self.ways, x.chunk(2, -1), strict=True)], -1)

    return Norms()


def turned(runs: Any, device: Any) -> Any:
    """Rows of a packed batch with every sequence back to front, int64 (tokens,); twice is as before."""
    import torch

    parts, start = [], 0
    for count, length in runs:
        block = torch.arange(start, start + count * length, device=device)
        parts.append(block.view(count, length).flip(1).flatten())
        start += count * length
    return torch.cat(parts)
