"""Packing of sequences into batches without padding: sequences are concatenated and grouped by length.

A packed batch holds ``src_tokens`` (N,), ``positions`` (N,) and ``runs``, a list of (number of sequences,
their length) in order. Attention sees each run as a dense (sequences, length) block; every other layer sees N
real tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch

from xling.array_types import Int, Int64

Example = dict[str, np.ndarray]
OPTIONAL_INPUTS = ("langs", "segments", "sees", "shows")


def runs_of(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Group neighbouring equal lengths as (count, length).

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


def sequence(
    tokens: Sequence[int] | Int[np.ndarray, " length"], lang: int, **more: Int[np.ndarray, " _"]
) -> Example:
    """Return a sequence of one language that `pack` reads, with ``more`` of its fields."""
    positions, langs = np.arange(len(tokens)), np.full(len(tokens), lang)
    return {"tokens": np.asarray(tokens), "positions": positions, "langs": langs, **more}


def pack(examples: Sequence[Example]) -> dict[str, Any]:
    """Concatenate examples into one packed sample, longest first.

    Args:
        examples: each with ``tokens`` and ``positions`` (length,), and, where the objective predicts tokens,
            ``chosen`` (num_chosen,) with ``target`` and ``target_langs``
            (num_chosen,); optionally ``langs``, ``segments``, ``sees``, ``shows`` and ``sides`` (length,),
            ``shares`` (num_chosen, labels).

    Returns:
        A fairseq sample. ``net_input`` holds int64 tensors ``src_tokens`` (N,), ``positions`` (N,), optional
        ``langs``, ``segments``, ``sees``, ``shows`` (N,) and the list ``runs``. ``chosen`` (M,) are rows of
        the packed batch, with ``target`` (M,) and ``target_langs`` (M,); ``num_chosen`` is a list by
        sequence. Further ``sides`` (N,); float32 ``shares`` (M, labels); ``id`` (B,); ``nsentences``; ``ntokens``.
    """
    order = sorted(range(len(examples)), key=lambda i: -len(examples[i]["tokens"]))
    ordered = [examples[i] for i in order]
    lengths = [len(e["tokens"]) for e in ordered]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])

    concatenated = partial(_concatenated, ordered)
    net_input: dict[str, Any] = {
        "src_tokens": concatenated("tokens"),
        "positions": concatenated("positions"),
        "runs": runs_of(lengths),
    }
    for key in OPTIONAL_INPUTS:
        if key in ordered[0]:
            net_input[key] = concatenated(key)
    sample: dict[str, Any] = {
        "id": concatenated("id"),
        "net_input": net_input,
        "nsentences": len(ordered),
        "ntokens": int(sum(lengths)),
    }
    if "sides" in ordered[0]:
        sample["sides"] = concatenated("sides")
    if "chosen" in ordered[0]:
        rows = [e["chosen"] + start for e, start in zip(ordered, starts, strict=True)]
        counts = [len(e["chosen"]) for e in ordered]
        sample["chosen"] = torch.from_numpy(np.concatenate(rows).astype(np.int64))
        sample["target"] = concatenated("target")
        sample["num_chosen"] = counts
        if "shares" in ordered[0]:
            sample["shares"] = torch.from_numpy(np.concatenate([e["shares"] for e in ordered]))
        if "target_langs" in ordered[0]:
            sample["target_langs"] = concatenated("target_langs")
    return sample


def pack_seq2seq(examples: Sequence[Example]) -> dict[str, Any]:
    """Concatenate sources, longest first, and their targets in the same order.

    Args:
        examples: each with the source as `pack` takes it (``tokens``, ``positions``, ``langs``: (S,)) and
            what the decoder reads and predicts: ``prev_tokens``, ``prev_positions``, ``prev_langs``,
            ``target`` (T,); optionally ``hidden``, bool (S,), True where the decoder does not see the source.

    Returns:
        A fairseq sample: ``net_input`` as `pack` makes it with ``decoder``: ``tokens``, ``positions``,
            ``langs`` (M,),
        its ``runs``, and ``cross``, a list of (sequences, target length, source length) in order. With
        ``hidden`` the source length counts the visible tokens, whose rows among the sources are ``seen``
        (K,). Further ``target`` and ``target_langs`` (M,); ``id`` (B,); ``nsentences``; ``ntokens`` of both
        sides.
    """
    lengths = [(len(e["tokens"]), len(e["target"])) for e in examples]
    order = sorted(range(len(examples)), key=lambda i: lengths[i], reverse=True)
    ordered = [examples[i] for i in order]
    sample = pack(ordered)  # its sort is stable, so this order is kept
    facing = [lengths[i] for i in order]

    concatenated = partial(_concatenated, ordered)
    sample["net_input"]["decoder"] = {
        "tokens": concatenated("prev_tokens"),
        "positions": concatenated("prev_positions"),
        "langs": concatenated("prev_langs"),
        "runs": runs_of([length for _, length in facing]),
    }
    if "hidden" in ordered[0]:
        # Attention over nothing is undefined: a source that is hidden completely is shown.
        shown = [~e["hidden"] | e["hidden"].all() for e in ordered]
        sample["net_input"]["decoder"]["seen"] = torch.from_numpy(np.flatnonzero(np.concatenate(shown)))
        facing = [(int(seen.sum()), target) for seen, (_, target) in zip(shown, facing, strict=True)]
    sample["net_input"]["decoder"]["cross"] = cross_runs(facing)
    sample["target"], sample["target_langs"] = concatenated("target"), concatenated("prev_langs")
    sample["ntokens"] += len(sample["target"])
    return sample


def _concatenated(examples: Sequence[Example], key: str) -> Int64[torch.Tensor, " tokens"]:
    return torch.from_numpy(np.concatenate([e[key] for e in examples]).astype(np.int64))


def cross_runs(lengths: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Group neighbours of equal (source, target) lengths as (count, target length, source length)."""
    return [(len(list(same)), tgt, src) for (src, tgt), same in groupby(lengths)]


def to_device(value: Any, device: torch.device) -> Any:
    """Move the tensors of a batch, at any depth of its dictionaries, to a device."""
    if isinstance(value, dict):
        return {key: to_device(each, device) for key, each in value.items()}
    return value.to(device) if isinstance(value, torch.Tensor) else value
