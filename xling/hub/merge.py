"""Merging of models that started from the same checkpoint, by averages or by TIES: ``xling merge``.

Sources: Wortsman et al. 2022 (averages); Yadav et al. 2023 (TIES: trim, elect signs, average what agrees).
Marone et al. 2025 merge the decay phases of three language mixes by TIES.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from xling.array_types import Float, Shaped
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.hub import checks
from xling.hub.settings import MergeConfig
from xling.models.files import model_weights
from xling.text import vocab
from xling.transfer import sentence

STAGE = "merge"


def run(cfg: MergeConfig) -> manifest.Manifest:
    """Merge models and publish the result, as ``xling pretrain`` does.

    Raises:
        UserError: different shapes, languages or vocabularies.
    """
    sources = [*cfg.checkpoints, *([cfg.base] if cfg.base else [])]
    if published := manifest.up_to_date(cfg.out, STAGE, cfg, sources):
        return published
    states = [model_weights.read_published(path / "model.pt", *model_weights.SHAPES) for path in sources]
    checks.check_alike(sources, states)
    fixed = _equal_integers(sources, [state["weights"] for state in states])
    weights = [
        {name: weight for name, weight in state["weights"].items() if name not in fixed} for state in states
    ]
    num_models = len(cfg.checkpoints)
    shares = torch.tensor(cfg.weights or [1.0] * num_models, dtype=torch.float64)
    shares = shares / shares.sum()
    if cfg.method == "ties":
        merged = merge_ties(weights[:num_models], weights[num_models], shares, cfg.density, cfg.scale)
    else:
        merged = {}
        for name in weights[0]:
            parts = [
                share * each[name].double() for share, each in zip(shares.tolist(), weights, strict=False)
            ]
            merged[name] = sum(parts[1:], parts[0]).float()
    with manifest.publish(cfg.out, STAGE, cfg, sources) as publication:
        torch.save(states[0] | {"weights": merged | fixed}, publication.path / "model.pt")
        vocab.copy_vocabulary(cfg.checkpoints[0], publication.path)
        sentence.copy_head(cfg.checkpoints, publication.path)
        publication.counts |= {"langs": states[0]["langs"], "models": num_models, "method": cfg.method}
    return manifest.read(cfg.out)


def _equal_integers(
    sources: Sequence[Path], weights: Sequence[dict[str, Shaped[Tensor, " ..."]]]
) -> dict[str, Shaped[Tensor, " ..."]]:
    """Return what is no weight and has no mean: the spelling and the known words of ``model.features``.

    Raises:
        UserError: two models differ in it.
    """
    fixed = {name: weight for name, weight in weights[0].items() if not weight.is_floating_point()}
    for source, other in zip(sources, weights, strict=True):
        if not all(torch.equal(other[name], weight) for name, weight in fixed.items()):
            raise UserError(
                f"{sources[0]} and {source} differ in the static encoder or the known words of model.features=",
                "models that were trained with the same",
            )
    return fixed


def merge_ties(
    weights: Sequence[dict[str, Float[Tensor, " ..."]]],
    base: dict[str, Float[Tensor, " ..."]],
    shares: Float[Tensor, " models"],
    density: float,
    scale: float = 1.0,
) -> dict[str, Float[Tensor, " ..."]]:
    """Merge changes from ``base`` by TIES: trim them, elect a sign, and average the models that agree.

    Args:
        density: share of each model's changes to keep, the largest over the whole model.
        scale: factor on the merged change.
    """
    thresholds = []
    for model in weights:
        magnitudes = torch.cat([(model[name] - base[name]).abs().flatten() for name in base])
        num_kept = max(1, round(density * len(magnitudes)))
        thresholds.append(magnitudes.kthvalue(len(magnitudes) - num_kept + 1).values)
    merged = {}
    for name, base_weight in base.items():
        changes = torch.stack([model[name] - base_weight for model in weights]).double()
        magnitudes = torch.stack(thresholds).view(-1, *[1] * base_weight.dim())
        changes = torch.where(changes.abs() >= magnitudes, changes, 0.0)
        model_shares = shares.view(-1, *[1] * base_weight.dim())
        is_agreeing = (changes.sign() == (changes * model_shares).sum(0).sign()) & (changes != 0)
        mean_change = (changes * model_shares * is_agreeing).sum(0) / (model_shares * is_agreeing).sum(
            0
        ).clamp(min=1e-12)
        merged[name] = (base_weight.double() + scale * mean_change).float()
    return merged
