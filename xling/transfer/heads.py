"""Heads on top of an encoder: a classifier on chosen tokens, or pointers to some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Float, Float32, Int
from xling.models.network.attention import Attention, SequenceRuns
from xling.models.network.dropout import dropout
from xling.models.network.encoder import Encoder
from xling.transfer.neighbours import NEIGHBOURS, NeighbourHead, mean_states
from xling.transfer.settings import LAST, MIX, PairFeatures, TextFeatures
from xling.transfer.task import TASKS


class ScalarMix(nn.Module):
    """``gamma * sum_j softmax(weights)_j * states_j`` over the word vectors and all layers; the plain mean at first.

    The mix of ELMo (Peters et al. 2018, equation 1); with the encoder frozen it is the feature extraction of Peters
    et al. 2019. The paper adds a penalty of the weights that is small or zero in its own runs; there is none here.

    Args:
        num: number of states that are mixed, one more than there are layers.
    """

    def __init__(self, num: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(num))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, states: Sequence[Float[Tensor, "tokens dim"]]) -> Float[Tensor, "tokens dim"]:
        """Mix ``num`` states (N, D) to (N, D)."""
        shares = torch.softmax(self.weights.float(), 0).to(self.weights.dtype)
        mixed = sum(share * state for share, state in zip(shares, states, strict=True))
        out: Tensor = self.gamma * mixed
        return out


ATTENTION_SHARPNESS = 20.0


class TaskModel(nn.Module):
    """An encoder with a classifier on chosen tokens.

    Args:
        encoder: the encoder.
        task: name in `xling.transfer.task.TASKS`.
        labels: closed list of labels; empty if the answer is one of the chosen tokens.
        dropout_rate: dropout before the classifier.
        features: features of a pair. ``cls``: the state of ``<s>``. ``match``: with it the mean states u and v of
            the two texts, ``|u - v|`` and ``u * v`` (Conneau et al. 2017, section 3.1). ``align``: the output of
            `unmatched_features` on the word vectors alone, without the layers above them.
            Features of a single text with one class. ``cls``: the state of ``<s>``. ``concat``: with it the largest and
            the mean state (Howard & Ruder 2018, section 3.3, with the last state first). ``neighbours``: the mean
            state, answered by `xling.transfer.neighbours`; nothing learns by gradients.
        label_smoothing: share of the target distribution that is spread evenly over all labels.
        layers: states that the head reads: of the ``last`` layer, a learned ``mix`` of all, or after that many layers.
    """

    def __init__(
        self, encoder: Encoder, task: str, labels: Sequence[str], dropout_rate: float,
        features: PairFeatures | TextFeatures = "cls", label_smoothing: float = 0.0, layers: str = LAST,
    ) -> None:  # fmt: skip
        super().__init__()
        dim = encoder.cfg.dim
        self.encoder, self.labels, self.drop = encoder, tuple(labels), dropout_rate
        self.task = TASKS[task]
        self.label_smoothing = label_smoothing
        self.layers, self._is_encoder_fixed = layers, False
        self.mix = ScalarMix(len(encoder.layers) + 1) if layers == MIX else None
        self.features = features if self.task.two_texts or self.task.one_text else "cls"
        width = {"cls": dim, "match": 5 * dim, "align": 4 * dim, "concat": 3 * dim}.get(self.features, dim)
        self.norm = nn.LayerNorm(width) if self.features == "align" else None
        # ModernBERT uses the head of its language model under every classifier: dense, gelu and norm without
        # biases.
        biases = encoder.cfg.head_biases
        self.dense = nn.Linear(width, dim, biases) if self.task.pooled or not biases else None
        self.head_norm = None if biases else nn.LayerNorm(dim, encoder.cfg.norm_eps, bias=False)
        self.classifier = nn.Linear(dim, self.task.num_outputs(self.labels))
        if self.features == NEIGHBOURS:
            self.dense = self.head_norm = None
            self.classifier = NeighbourHead(dim, len(self.labels))
        for layer in (self.dense, self.classifier):
            if layer is not None:
                nn.init.normal_(layer.weight, std=0.02)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.classifier.weight.device

    def fix_encoder(self) -> None:
        """Make the encoder a source of features: no weight of it learns, and it has no dropout in training."""
        self.encoder.requires_grad_(False)
        self._is_encoder_fixed = True
        self.train(self.training)

    def train(self, mode: bool = True) -> TaskModel:
        """Set training or evaluation; a fixed encoder is always in evaluation."""
        super().train(mode)
        if self._is_encoder_fixed:
            self.encoder.eval()
        return self

    def states(
        self, words: Float[Tensor, "tokens dim"], inputs: dict[str, Any]
    ) -> Float[Tensor, "tokens dim"]:
        """Compute the states (N, D) that the head reads from word vectors (N, D)."""
        arguments = words, inputs["positions"], Attention(inputs["runs"]), inputs.get("langs")
        segments = inputs.get("segments")
        if self.mix is not None:
            mixed: Tensor = self.mix(self.encoder.layer_states(*arguments, segments=segments))
            return mixed
        layer = None if self.layers == LAST else int(self.layers)
        return self.encoder.contextualise(*arguments, layer=layer, segments=segments)

    def forward(self, sample: dict[str, Any]) -> Float[Tensor, "chosen labels"]:
        """Compute logits at the chosen tokens of a packed batch; see `xling.data.packing.pack`.

        Args:
            sample: a packed batch.

        Returns:
            (M, labels); for ``choice`` (M, 1), for ``span`` (M, 2): answer begins and ends here. With features
            ``neighbours`` the sentence vectors, (B, D).
        """
        inputs = sample["net_input"]
        words = self.encoder.tokens(inputs["src_tokens"])
        if self.features == NEIGHBOURS:
            return mean_states(self.states(words, inputs), inputs["runs"])
        if self.norm is not None:
            hidden = self.norm(unmatched_features(words, sample["sides"], inputs["runs"]))
        else:
            hidden = self.states(words, inputs)
            chosen = hidden[sample["chosen"]]
            if self.features == "match":
                chosen = torch.cat([chosen, match_features(hidden, sample["sides"], inputs["runs"])], 1)
            elif self.features == "concat":
                chosen = torch.cat([chosen, summary_features(hidden, inputs["runs"])], 1)
            hidden = chosen
        if self.dense is not None:
            dense_output = self.dense(dropout(hidden, self.drop, self.training))
            hidden = (
                torch.tanh(dense_output) if self.head_norm is None else self.head_norm(F.gelu(dense_output))
            )
        logits: Tensor = self.classifier(dropout(hidden, self.drop, self.training))
        return self.task.mask_logits(logits, inputs["positions"][sample["chosen"]], self.labels)

    def log_probabilities(self, sample: dict[str, Any]) -> Float32[Tensor, "chosen labels"]:
        """Compute `forward` in float32 as log-probabilities over the labels, or over the competing tokens.

        If the answer is one of the chosen tokens, those of sequences with the same ``id`` compete with each
        other, separately for each column.
        """
        return self.normalised(self(sample), sample)

    def normalised(
        self, logits: Float[Tensor, "chosen labels"], sample: dict[str, Any]
    ) -> Float32[Tensor, "chosen labels"]:
        """Compute the log-probabilities of logits; see `log_probabilities`."""
        logits = logits.float()
        if not self.task.pointers:
            return torch.log_softmax(logits, -1)
        counts = torch.tensor(sample["num_chosen"], device=logits.device)
        _, groups = torch.unique(sample["id"].repeat_interleave(counts), return_inverse=True)
        return log_softmax_by_group(logits, groups)

    def loss(
        self,
        log_probabilities: Float[Tensor, "chosen labels"],
        target: Int[Tensor, " chosen"],
        shares: Float32[Tensor, "chosen labels"] | None = None,
    ) -> Float[Tensor, ""]:
        """Compute the negative log-likelihood of the targets, reduced by `xling.transfer.task.Task.loss`.

        With ``shares``, the probabilities that a teacher gives each label, their cross-entropy instead.
        """
        if self.task.pointers:
            bits = torch.arange(log_probabilities.shape[1], device=target.device)
            is_target = (target[:, None] >> bits) & 1 == 1
            return -log_probabilities[is_target].mean()
        if shares is None:
            losses = -log_probabilities.gather(1, target[:, None]).squeeze(1)
        else:
            losses = -(shares * log_probabilities).sum(1)
        if self.label_smoothing:
            losses = torch.lerp(losses, -log_probabilities.mean(1), self.label_smoothing)
        return self.task.loss(losses, target, self.labels)


def log_softmax_by_group(
    logits: Float[Tensor, "rows columns"], groups: Int[Tensor, " rows"]
) -> Float[Tensor, "rows columns"]:
    """Compute the log-softmax of each column over the rows of one group.

    Returns:
        (M, K).
    """
    index = groups[:, None].expand_as(logits)
    shape = int(groups.max()) + 1, logits.shape[1]
    peak = logits.new_full(shape, -torch.inf).scatter_reduce(0, index, logits.detach(), "amax")
    shifted = logits - peak[groups]
    total = logits.new_zeros(shape).index_add(0, groups, shifted.exp())
    return shifted - total.log()[groups]


def summary_features(
    hidden: Float[Tensor, "tokens dim"], runs: SequenceRuns
) -> Float[Tensor, " batch 2*dim"]:
    """Return the largest and the mean state of each sequence, specials included.

    Returns:
        (B, 2 D).
    """
    features, start = [], 0
    for count, length in runs:
        block = hidden[start : start + count * length].view(count, length, -1)
        start += count * length
        features.append(torch.cat([block.amax(1), block.mean(1)], 1))
    return torch.cat(features)


def match_features(
    hidden: Float[Tensor, "tokens dim"], sides: Int[Tensor, " tokens"], runs: SequenceRuns
) -> Float[Tensor, " batch 4*dim"]:
    """Compute mean states u and v of the two texts of each pair, ``|u - v|`` and ``u * v``.

    Args:
        sides: (N,) 1 and 2 at the tokens of the two texts; an empty text counts as zeros.

    Returns:
        (B, 4 D).
    """
    lengths = torch.tensor([length for count, length in runs for _ in range(count)], device=hidden.device)
    sequence_of_token = torch.repeat_interleave(torch.arange(len(lengths), device=hidden.device), lengths)
    means = []
    for side in (1, 2):
        is_side = sides == side
        total = hidden.new_zeros(len(lengths), hidden.shape[1]).index_add(
            0, sequence_of_token[is_side], hidden[is_side]
        )
        count = torch.bincount(sequence_of_token[is_side], minlength=len(lengths)).clamp_min(1)
        means.append(total / count[:, None].to(hidden.dtype))
    u, v = means
    return torch.cat([u, v, (u - v).abs(), u * v], 1)


def unmatched_features(
    hidden: Float[Tensor, "tokens dim"], sides: Int[Tensor, " tokens"], runs: SequenceRuns
) -> Float[Tensor, " batch 4*dim"]:
    """Compute what each text of a pair says that the other does not.

    Every token is rebuilt from the other text's tokens, weighted by a softmax over `ATTENTION_SHARPNESS` x cosine (the
    attend step of Parikh et al. 2016). Its residual is summed over its text, with and without its sign. If
    words of equal meaning are close in all languages, so are these differences.

    Args:
        sides: (N,) 1 and 2 at the tokens of the two texts; against an empty text nothing is rebuilt.

    Returns:
        (B, 4 D).
    """
    features, start = [], 0
    for count, length in runs:
        block = slice(start, start + count * length)
        start = block.stop
        states, side_of = hidden[block].view(count, length, -1), sides[block].view(count, length)
        unit = F.normalize(states, dim=-1)
        is_other_text = side_of[:, :, None] * side_of[:, None, :] == 2  # 1 x 2: one token of each text
        scores = (ATTENTION_SHARPNESS * unit @ unit.mT).masked_fill(~is_other_text, float("-inf"))
        residuals = states - scores.softmax(-1).nan_to_num(0.0) @ states  # NaN: a token that sees nothing
        residuals_by_text = [residuals * (side_of == side)[..., None] for side in (1, 2)]
        features.append(
            torch.cat([summed for x in residuals_by_text for summed in (x.sum(1), x.abs().sum(1))], 1)
        )
    return torch.cat(features)
