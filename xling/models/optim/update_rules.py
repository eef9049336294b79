"""Update rules besides AdamW: StableAdamW, and Muon for hidden matrices with AdamW for everything else.

Sources: Wortsman et al. 2023, algorithm 2 (StableAdamW); Jordan et al. 2024 (Muon: momentum made orthogonal
by five Newton-Schulz steps); Liu et al. 2025, section 2.2 (scale and decay matched to AdamW's).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from xling.array_types import Float
from xling.models.distributed import processes

RULES = ("adamw", "stable_adamw", "muon")
COEFFICIENTS, STEPS = (3.4445, -4.7750, 2.0315), 5
LONG = 2  # times as long as wide: from there the Gram matrix saves products
SCALE = 0.2
_HIDDEN = re.compile(r"(?:^|\.)layers\.\d+\.(qkv|out|up|down|cross_query|cross_kv|cross_out)\.weight$")
_PARTS = {"qkv": 3, "cross_kv": 2}


def mark(model: nn.Module) -> None:
    """Set ``parts`` on each hidden matrix of ``model``, the number of matrices that it consists of, for Muon.

    Queries, keys and values share one matrix, and so do the two halves of a gated block.
    """
    for name, parameter in model.named_parameters():
        if match := _HIDDEN.search(name):
            kind, parts = match[1], _PARTS.get(match[1], 1)
            if kind == "up":
                down = model.get_parameter(name.replace(".up.weight", ".down.weight"))
                parts = parameter.shape[0] // down.shape[1]
            parameter.parts = parts  # type: ignore[attr-defined]


@torch.no_grad()
def orthogonal(matrix: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """Approximate the nearest matrix with singular values near 1, by Newton-Schulz in the dtype of ``matrix``.

    The five steps bring every singular value of a matrix of norm 1 between about .7 and 1.2. Those of a long matrix are
    made on its small Gram matrix, to the same result. In bfloat16 that would lose small singular values.
    """
    a, b, c = COEFFICIENTS
    turned = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if turned else matrix).contiguous()
    x = x / (x.norm() + 1e-7)
    if x.shape[1] >= LONG * x.shape[0] and x.dtype != torch.bfloat16:
        x = _steps_on_gram(x @ x.T) @ x
    else:
        for _ in range(STEPS):
            square = x @ x.T
            x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.T if turned else x


def _steps_on_gram(gram: Float[Tensor, "rows rows"]) -> Float[Tensor, "rows rows"]:
    """Return the matrix that all steps together multiply a matrix with, from the products of its rows."""
    a, b, c = COEFFICIENTS
    product = gram
    for number in range(STEPS):
        step = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        step.diagonal().add_(a)
        product = step @ product if number else step
        if number < STEPS - 1:
            gram = step @ gram @ step
    return product


class Rules(torch.optim.Optimizer):
    """AdamW, StableAdamW and Muon over groups with a ``rule`` each, on float32 parameters, sharded or not.

    Args:
        groups: each with ``params``, ``rule``, ``lr`` and ``weight_decay`` (decoupled, times the learning
            rate); ``parts`` of a Muon group is the number of matrices that its parameters consist of.
        lr: learning rate of groups without one.
        betas, eps: settings of AdamW.
        momentum: momentum of Muon.
        products: dtype of Muon's products on a CPU, None for that of the weights; on a GPU it is bfloat16, as in
            Jordan et al. 2024.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-6,
        momentum: float = 0.95,
        products: torch.dtype | None = None,
    ) -> None:
        self.products = products
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "momentum": momentum, "parts": 1})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient; all processes of a sharded model must call it."""
        for group in self.param_groups:
            rule: Callable[..., None] = self._muon if group["rule"] == "muon" else self._adamw
            for parameter in group["params"]:
                if parameter.grad is not None:
                    rule(parameter, parameter.grad, self.state[parameter], group)

    def _adamw(
        self, parameter: Tensor, grad: Tensor, state: dict[str, Tensor], group: dict[str, Any]
    ) -> None:
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        state["step"] += 1
        beta1, beta2 = group["betas"]
        weight, g, mean, square = map(
            processes.local, (parameter, grad, state["exp_avg"], state["exp_avg_sq"])
        )
        mean.lerp_(g, 1 - beta1)
        square.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        step = float(state["step"])
        mean_correction, square_correction = 1 - beta1**step, 1 - beta2**step
        change = mean / (square / square_correction).sqrt_().add_(group["eps"])
        rate: float | Tensor = group["lr"]
        if group["rule"] == "stable_adamw":  # the divisor stays on the device
            ratio = g.square() / (square / square_correction).clamp(min=group["eps"] ** 2)
            rate = rate / _mean(ratio, parameter).sqrt().clamp(min=1.0)
        weight.mul_(1 - rate * group["weight_decay"])
        weight.sub_(change.mul_(rate / mean_correction))

    def _muon(self, parameter: Tensor, grad: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        keep, buffer = group["momentum"], state["momentum"]
        processes.local(buffer).lerp_(processes.local(grad), 1 - keep)
        wanted = torch.zeros_like(parameter)
        processes.local(wanted).copy_(processes.local(grad).lerp(processes.local(buffer), keep))
        # A matrix that is sharded over processes is gathered in each of them; the product is the same as in
        # one process.
        whole = wanted.full_tensor() if processes.is_part(wanted) else wanted
        dtype = torch.bfloat16 if whole.is_cuda else self.products or whole.dtype
        updates = [
            SCALE * max(part.shape) ** 0.5 * orthogonal(part.to(dtype))
            for part in whole.chunk(group["parts"])
        ]
        change = processes.shard_like(torch.cat(updates).to(whole.dtype), parameter)
        weight = processes.local(parameter)
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        weight.add_(processes.local(change), alpha=-group["lr"])


def _mean(values: Tensor, parameter: Tensor) -> Tensor:
    return processes.sum_over_parts(values.sum(), parameter) / parameter.numel()
