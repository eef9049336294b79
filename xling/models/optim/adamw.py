"""AdamW, StableAdamW or Muon on float32 master weights, registered with fairseq as ``xling_adamw``."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from xling.array_types import Float
from xling.models.distributed import processes
from xling.models.distributed.processes import Average
from xling.models.optim.update_rules import Rules

_hooks = WeakTensorKeyDictionary()  # the gradient hook of each parameter, set by its newest optimiser


class NotFiniteError(ArithmeticError):
    """Raised when the norm of the gradients is not finite; nothing was updated.

    It is not a FloatingPointError, on which fairseq's Trainer writes a crash file and runs the batch again.
    """


@dataclass
class AdamWConfig(FairseqDataclass):
    """Hyper-parameters of the optimiser; the defaults are XLM-R's.

    ``rule``: see `xling.models.optim.update_rules.RULES`; ``momentum``: momentum of Muon.
    """

    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-6
    weight_decay: float = 0.01
    rule: str = "adamw"
    momentum: float = 0.95
    lr: list[float] = II("optimization.lr")


class Share(NamedTuple):
    """Learning settings of a parameter.

    ``scale`` times the learning rate, with or without weight decay (of matrices).

    ``parts`` above 0 is the number of hidden matrices that a parameter consists of, which Muon updates.
    """

    scale: float = 1.0
    decays: bool = True
    parts: int = 0


@register_optimizer("xling_adamw", dataclass=AdamWConfig)
class XlingAdamW(FairseqOptimizer):  # type: ignore[misc]
    """AdamW with all float32 masters and moments in its state, so that a resumed run is exact.

    fairseq's own bf16 optimiser rebuilds its masters from the rounded weights when it resumes. Decay is
    applied to matrices only, not to biases and norms. float32 parameters are their own masters.

    Gradients of other parameters are also accumulated in float32: as soon as the backward pass of a batch has
    computed one, it is moved to the master and its memory is freed. A sum in bfloat16 would ignore terms
    below 1/512 of it.

    Args:
        cfg: hyper-parameters.
        params: the trained parameters.
        shares: one for each of ``params``, if they have different learning settings.
    """

    def __init__(
        self, cfg: AdamWConfig, params: Iterable[Float[Tensor, " ..."]], shares: Sequence[Share] | None = None
    ) -> None:
        super().__init__(cfg)
        self.working = list(params)
        self.masters = [p if p.dtype == torch.float32 else p.detach().float() for p in self.working]
        self.average = Average(self.masters)
        # A resumed run builds a second optimiser of the same parameters. The first may still be in memory.
        _remove([_hooks.pop(working) for working in self.working if working in _hooks])
        hooks = {
            working: working.register_post_accumulate_grad_hook(partial(_take_gradient, master, self.average))
            for working, master in zip(self.working, self.masters, strict=True)
            if working.requires_grad and (working is not master or processes.size() > 1)
        }
        _hooks.update(hooks)
        weakref.finalize(self, _remove, list(hooks.values()))
        alike: dict[Share, list[Tensor]] = {Share(): [], Share(decays=False): []}
        share_of_each = shares or [Share()] * len(self.masters)
        for param, master, share in zip(self.working, self.masters, share_of_each, strict=True):
            parts = getattr(param, "parts", 0) if cfg.rule == "muon" else 0
            key = share._replace(decays=share.decays and master.dim() > 1, parts=parts)
            alike.setdefault(key, []).append(master)
        groups = [
            {
                "params": masters,
                "weight_decay": cfg.weight_decay if share.decays else 0.0,
                "lr": cfg.lr[0] * share.scale,
                "lr_scale": share.scale,
                "rule": "muon" if share.parts else "adamw" if cfg.rule == "muon" else cfg.rule,
                "parts": share.parts,
            }
            for share, masters in alike.items()
        ]
        kept, betas = [group for group in groups if group["params"]], (cfg.beta1, cfg.beta2)
        self._optimizer: torch.optim.Optimizer
        if cfg.rule == "adamw":
            for group in kept:
                del group["rule"], group["parts"]
            self._optimizer = torch.optim.AdamW(kept, lr=cfg.lr[0], betas=betas, eps=cfg.eps, fused=True)
        else:
            # Weights are in bfloat16 where its products are fast.
            products = next((p.dtype for p in self.working if p.dtype == torch.bfloat16), None)
            self._optimizer = Rules(kept, cfg.lr[0], betas, cfg.eps, cfg.momentum, products)

    @property
    def params(self) -> Iterable[Float[Tensor, " ..."]]:
        """Parameters of the model that the optimiser updates."""
        return self.working

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """The settings that a resumed run may change."""
        return {"lr": self.cfg.lr[0]}

    def set_lr(self, lr: float) -> None:
        """Set the learning rate, scaled for each parameter by its share."""
        for group in self.param_groups:
            group["lr"] = lr * group.get("lr_scale", 1.0)  # states from older versions lack it

    def all_reduce_grads(self, module: Any) -> None:
        """Average the gradients of all trained parameters over the processes."""
        self._gather_gradients()
        self.average.finish()

    def multiply_grads(self, c: float | Float[Tensor, ""]) -> None:
        """Multiply the gradients of the masters by ``c``."""
        self._gather_gradients()
        grads = [processes.local(grad) for grad in self._grads()]
        if grads:
            torch._foreach_mul_(grads, c)

    def clip_grad_norm(
        self,
        max_norm: float,
        aggregate_norm_fn: Callable[[Float[Tensor, ""]], Float[Tensor, ""]] | None = None,
    ) -> Float[Tensor, ""]:
        """Scale the gradients to a norm of at most ``max_norm`` (0: no scaling) and return the norm before, on the CPU.

        Raises:
            NotFiniteError: the norm is infinite or not a number.
        """
        grads = self._grads()
        if not grads:
            return torch.tensor(0.0)
        norm = processes.total_norm(grads)
        if aggregate_norm_fn is not None:
            norm = aggregate_norm_fn(norm)
        norm_on_cpu = norm.cpu()  # the only wait for a GPU; fairseq asks for the norm twice more
        if not torch.isfinite(norm_on_cpu):
            raise NotFiniteError(f"gradient norm {norm_on_cpu.item()}")
        if max_norm > 0:
            factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
            torch._foreach_mul_([processes.local(grad) for grad in grads], factor)
        return norm_on_cpu

    def step(self, closure: Any = None, scale: float = 1.0, groups: Any = None) -> None:
        """Update the masters and write them back to the working weights."""
        self._optimizer.step()
        pairs = [(p, m) for p, m in zip(self.working, self.masters, strict=True) if p is not m]
        if pairs:
            with torch.no_grad():
                working, masters = ([processes.local(t) for t in side] for side in zip(*pairs, strict=True))
                torch._foreach_copy_(working, masters)

    def zero_grad(self) -> None:
        """Drop the gradients of working weights and masters."""
        self.average.reset()
        for tensor in (*self.working, *self.masters):
            tensor.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Return the state to save: moments, and float32 copies of the weights."""
        return {"adamw": self._optimizer.state_dict(), "masters": self.masters}

    def load_state_dict(
        self, state_dict: dict[str, Any], optimizer_overrides: dict[str, Any] | None = None
    ) -> None:
        """Restore moments and masters and write the working weights again from the masters.

        The state is unsharded, even if the parameters are sharded.
        """
        params = [p for group in self._optimizer.param_groups for p in group["params"]]
        moments = {
            number: {
                name: processes.shard_like(value, params[number])
                if value.shape == params[number].shape
                else value
                for name, value in of_one.items()
            }
            for number, of_one in state_dict["adamw"]["state"].items()
        }
        self._optimizer.load_state_dict(state_dict["adamw"] | {"state": moments})
        with torch.no_grad():
            for param, master, saved in zip(self.working, self.masters, state_dict["masters"], strict=True):
                master.copy_(processes.shard_like(saved, master))
                if param is not master:
                    param.copy_(master)
        for group in self._optimizer.param_groups:
            group.update(optimizer_overrides or {})

    def _gather_gradients(self) -> None:
        """Move gradients that no backward pass computed, for example those set by tests, to the masters."""
        for param, master in zip(self.working, self.masters, strict=True):
            if param is not master and param.grad is not None:
                _move_gradient(master, param)

    def _grads(self) -> list[Tensor]:
        return [m.grad for m in self.masters if m.grad is not None]


def _take_gradient(master: Tensor, average: Average, param: Tensor) -> None:
    """Move the gradient of a parameter to its master, if it has one of its own, and have it averaged."""
    if param is not master:
        _move_gradient(master, param)
    average.complete(master)


@torch.no_grad()
def _move_gradient(master: Tensor, param: Tensor) -> None:
    assert param.grad is not None
    if master.grad is None:
        master.grad = param.grad.float()
    else:
        master.grad += param.grad
    param.grad = None


def _remove(hooks: Sequence[Any]) -> None:
    for hook in hooks:
        hook.remove()
