"""Distillation of an encoder into a smaller one during masked LM on monolingual text.

The student sees the masked text that `mmlm` makes and learns from a frozen teacher with the same vocabulary:

- ``soft``: at the chosen positions the teacher's distribution over the pieces, KL at a temperature T, times
  T^2;
- ``hidden``: the states of its layers, mean squared error after a learned projection, student layer m of M
  against teacher layer round(m L / M), the embeddings (m = 0) included; the mean over layers;
- ``relations``: token-to-token relations in one layer of the teacher and the student's last. A relation is
  the softmax of scaled dot products of queries with queries, keys with keys, or values with values. The loss
  is KL, summed over the three means. It replaces attention maps, which the fused kernels do not return;
  widths and numbers of heads may differ;
- ``hard``: the piece itself, as in masked LM.

Sources: Hinton et al. 2015, section 2 (soft); Sanh et al. 2019 (soft and hard together); Jiao et al. 2020
(TinyBERT), equations 8 and 9 (hidden); Wang et al. 2021 (MiniLMv2), equations 4 to 6 (relations). Our choice:
hidden losses are averaged over layers, not summed, so that their weight does not depend on the depth.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Float
from xling.core.errors import UserError
from xling.models.files import model_weights
from xling.models.network.attention import Attention, SequenceRuns
from xling.models.network.encoder import EncoderModel, Layer
from xling.objectives.base import Loss, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.mmlm import Mmlm


class Lesson(nn.Module):
    """The teacher, which is not saved with the student, and the projection of the student's states to its width.

    If both widths are equal, the projection starts as the identity.
    """

    def __init__(self, student: EncoderModel, teacher: EncoderModel) -> None:
        super().__init__()
        like = student.encoder.tokens.weight
        self.__dict__["teacher"] = teacher.to(like).requires_grad_(False).eval()
        self.projection = nn.Linear(student.cfg.dim, teacher.cfg.dim, bias=False)
        if student.cfg.dim == teacher.cfg.dim:
            nn.init.eye_(self.projection.weight)
        self.projection.to(like)


@objective("distill")
class Distill(Mmlm):
    """The distillation objective: a smaller encoder learns from a larger one."""

    trial = Trial({"teacher": "{teacher}"}, changes=("context",), ignores=("own token",))

    def modules(self, model: Any) -> nn.Module:
        """Load the teacher and create the projection.

        Raises:
            UserError: its LM head, from which ``soft`` learns, was never trained.
        """
        teacher = model_weights.load_model(Path(self.cfg.teacher))[0]
        if self.cfg.soft and getattr(teacher.lm_head, "is_untrained", True):
            raise UserError(
                f"objectives.distill.teacher={self.cfg.teacher} has no trained LM head, and soft={self.cfg.soft} "
                "learns from it",
                "a teacher with its LM head, or soft=0",
                "import it from a file with its LM head, as ...ForMaskedLM writes it",
            )
        return Lesson(model, teacher)

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Return the weighted losses; losses of whole sequences are repeated at each chosen position."""
        cfg, distillation, inputs = self.cfg, model.extras["distill"], sample["net_input"]
        teacher: EncoderModel = distillation.teacher.to(inputs["src_tokens"].device)
        ours, hidden = states_of(model, inputs)
        with torch.no_grad():
            theirs, wanted = states_of(teacher, inputs)
        rows = torch.zeros(len(sample["target"]), device=hidden.device)
        if cfg.soft or cfg.hard:
            logits = model.lm_head.logits(hidden[sample["chosen"]]).float()
            rows = rows + cfg.hard * F.cross_entropy(logits, sample["target"], reduction="none")
            with torch.no_grad():
                teacher_logits = teacher.lm_head.logits(wanted[sample["chosen"]]).float()
            rows = rows + cfg.soft * soft_loss(logits, teacher_logits, cfg.temperature)
        if cfg.hidden:
            rows = rows + cfg.hidden * hidden_loss(ours, theirs, distillation.projection)
        if cfg.relations:
            layer_index = (cfg.teacher_layer or teacher.cfg.layers) - 1
            student_layer, teacher_layer = model.encoder.layers[-1], teacher.encoder.layers[layer_index]
            assert isinstance(student_layer, Layer) and isinstance(teacher_layer, Layer)
            vectors = student_layer.project(ours[-2]), teacher_layer.project(theirs[layer_index])
            heads = cfg.relation_heads or teacher.cfg.heads
            rows = rows + cfg.relations * relation_loss(*vectors, heads, inputs["runs"])
        return Loss(rows.sum(), len(rows), rows.detach(), sample["target_langs"])


def states_of(
    model: EncoderModel, inputs: dict[str, Any]
) -> tuple[list[Float[Tensor, "tokens dim"]], Float[Tensor, "tokens dim"]]:
    """Return the states before and after every layer, layers + 1 times (N, D), and the LM head's input, (N, D)."""
    encoder = model.encoder
    drop = encoder.cfg.attention_dropout if encoder.training else 0.0
    how = Attention(inputs["runs"], drop=drop)
    langs = inputs.get("langs")
    states = list(encoder.states(encoder.tokens(inputs["src_tokens"]), inputs["positions"], how, langs))
    return states, encoder.final_norm(states[-1])


def soft_loss(
    student: Float[Tensor, "rows vocab"], teacher: Float[Tensor, "rows vocab"], temperature: float
) -> Float[Tensor, " rows"]:
    """Return KL(teacher || student) of logits (M, V) at a temperature, times its square, (M,) nats."""
    ours, theirs = (F.log_softmax(logits / temperature, -1) for logits in (student, teacher))
    return F.kl_div(ours, theirs, log_target=True, reduction="none").sum(-1) * temperature**2


def hidden_loss(
    student: list[Float[Tensor, "tokens dim"]],
    teacher: list[Float[Tensor, "tokens teacher_dim"]],
    projection: nn.Module,
) -> Float[Tensor, ""]:
    """Return the mean squared error of projected states against those of the teacher, mean over layers, a scalar.

    Args:
        student: M + 1 states (N, D), of the embeddings first.
        teacher: L + 1 states (N, E).
        projection: (N, D) -> (N, E).
    """
    num, depth = len(student) - 1, len(teacher) - 1
    errors = [
        F.mse_loss(projection(state).float(), teacher[round(m * depth / num)].float())
        for m, state in enumerate(student)
    ]
    return torch.stack(errors).mean()


def relation_loss(
    student: Float[Tensor, "tokens 3 heads head_dim"],
    teacher: Float[Tensor, "tokens 3 teacher_heads teacher_head_dim"],
    heads: int,
    runs: SequenceRuns,
) -> Float[Tensor, ""]:
    """Return the KL between token relations of teacher and student, over queries, keys and values, a scalar in nats.

    Args:
        heads: relation heads; divides H C and H' C'.
        runs: runs of the packed batch; tokens relate only to tokens of the same sequence.

    Returns:
        The sum over the three of the mean over heads and tokens.
    """
    total = student.new_zeros((), dtype=torch.float32)
    start = 0
    for count, length in runs:
        block = slice(start, start := start + count * length)
        ours, theirs = (_relations(x[block], heads, count, length) for x in (student, teacher))
        total = total + F.kl_div(ours, theirs, log_target=True, reduction="sum")
    return total / (len(student) * heads)


def _relations(vectors: Tensor, heads: int, count: int, length: int) -> Tensor:
    """Turn (count * length, 3, H, C) into log-probabilities (count, 3, heads, length, length), float32."""
    x = vectors.reshape(count, length, 3, heads, -1).permute(0, 2, 3, 1, 4)
    return F.log_softmax((x @ x.mT).float() / math.sqrt(x.shape[-1]), -1)
