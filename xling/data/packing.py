"""Batches without padding: sequences laid end to end, grouped by length.

A packed batch holds ``src_tokens`` (N,), ``positions`` (N,) and ``runs``, a list of (number of sequences, their
length) in order, so that attention sees each run as a dense (sequences, length) block and every other layer
sees N real tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch

Example = dict[str, np.ndarray]
OPTIONAL_INPUTS = ("langs", "segments", "sees", "shows")


def runs_of(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbouring equal lengths as (count, length).

    Example:
        >>> runs_of([5, 5, 3])
        [(2, 5), (1, 3)]
    """
    runs: list[tuple[int, int]] = []
    for length in lengths:
        if runs and runs[-1][1] == length:
            runs[-1] = (runs[-1][0] + 1, length)
        else:
            runs.append((1, length))
    return runs


def pack(examples: Sequence[Example]) -> dict[str, Any]:
    """Lay examples end to end, longest first.

    Args:
        examples: each with ``tokens`` and ``positions`` (length,), and, where the objective predicts tokens,
            ``chosen`` (num_chosen,) with ``target`` and ``target_langs``
            (num_chosen,); optionally ``langs``, ``segments``, ``sees``, ``shows`` and ``sides`` (length,).

    Returns:
        A fairseq sample: ``net_input`` with int64 tensors ``src_tokens`` (N,), ``positions`` (N,), optional
        ``langs``, ``segments``, ``sees``, ``shows`` (N,) and the list ``runs``; ``chosen`` (M,) as rows of the packed
        batch, ``target`` (M,), ``target_langs`` (M,), ``num_chosen`` a list by sequence; ``sides`` (N,); ``id`` (B,);
        ``nsentences``; ``ntokens``.
    """
    order = sorted(range(len(examples)), key=lambda i: -len(examples[i]["tokens"]))
    ordered = [examples[i] for i in order]
    lengths = [len(e["tokens"]) for e in ordered]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])

    def joined(key: str) -> torch.Tensor:
        return torch.from_numpy(np.concatenate([e[key] for e in ordered]).astype(np.int64))

    net_input: dict[str, Any] = {
        "src_tokens": joined("tokens"),
        "positions": joined("positions"),
        "runs": runs_of(lengths),
    }
    for key in OPTIONAL_INPUTS:
        if key in ordered[0]:
            net_input[key] = joined(key)
    sample: dict[str, Any] = {
        "id": joined("id"),
        "net_input": net_input,
        "nsentences": len(ordered),
        "ntokens": int(sum(lengths)),
    }
    if "sides" in ordered[0]:
        sample["sides"] = joined("sides")
    if "chosen" in ordered[0]:
        rows = [e["chosen"] + start for e, start in zip(ordered, starts, strict=True)]
        counts = [len(e["chosen"]) for e in ordered]
        sample["chosen"] = torch.from_numpy(np.concatenate(rows).astype(np.int64))
        sample["target"] = joined("target")
        sample["num_chosen"] = counts
        if "target_langs" in ordered[0]:
            sample["target_langs"] = joined("target_langs")
    return sample


def pack_seq2seq(examples: Sequence[Example]) -> dict[str, Any]:
    """Lay sources end to end, longest first, and their targets in the same order.

    Args:
        examples: each with the source as `pack` takes it (``tokens``, ``positions``, ``langs``: (S,)) and what the
            decoder reads and predicts: ``prev_tokens``, ``prev_positions``, ``prev_langs``, ``target`` (T,);
            optionally ``hidden``, bool (S,), where the decoder does not see the source.

    Returns:
        A fairseq sample: ``net_input`` as `pack` makes it with ``decoder``: ``tokens``, ``positions``, ``langs`` (M,),
        its ``runs``, and ``cross``, a list of (sequences, target length, source length) in order; with ``hidden`` the
        source length counts what is seen, whose rows among the sources are ``seen`` (K,); ``target`` and
        ``target_langs`` (M,); ``id`` (B,); ``nsentences``; ``ntokens`` of both sides.
    """
    lengths = [(len(e["tokens"]), len(e["target"])) for e in examples]
    order = sorted(range(len(examples)), key=lambda i: lengths[i], reverse=True)
    ordered = [examples[i] for i in order]
    sample = pack(ordered)  # its sort is stable, so this order stays
    facing = [lengths[i] for i in order]

    def joined(key: str) -> torch.Tensor:
        return torch.from_numpy(np.concatenate([e[key] for e in ordered]).astype(np.int64))

    sample["net_input"]["decoder"] = {
        "tokens": joined("prev_tokens"),
        "positions": joined("prev_positions"),
        "langs": joined("prev_langs"),
        "runs": runs_of([length for _, length in facing]),
    }
    if "hidden" in ordered[0]:
        # Nothing to attend to has no answer: a source that is hidden whole is shown.
        shown = [~e["hidden"] | e["hidden"].all() for e in ordered]
        sample["net_input"]["decoder"]["seen"] = torch.from_numpy(np.flatnonzero(np.concatenate(shown)))
        facing = [(int(seen.sum()), target) for seen, (_, target) in zip(shown, facing, strict=True)]
    sample["net_input"]["decoder"]["cross"] = cross_runs(facing)
    sample["target"], sample["target_langs"] = joined("target"), joined("prev_langs")
    sample["ntokens"] += len(sample["target"])
    return sample


def cross_runs(lengths: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Neighbours of equal (source, target) lengths as (count, target length, source length)."""
    return [(len(list(same)), tgt, src) for (src, tgt), same in groupby(lengths)]
