"""How long the parts of a plan may take on one core of this machine, from rates measured elsewhere and its speed."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from xling.language.body import num_parameters

EFFICIENCY = 0.5
"""Share of the product rate that training reaches with its teacher."""
_MEASURED_AT = 137e9
"""Operations a second of the core on which the rates below were measured: Swahili, 4,000 pairs, 2026-11-27."""
_TEXT_BYTES_PER_S, _STATIC_UPDATES_PER_S, _STATIC_ROWS_PER_S = 0.5e6, 16.0, 1250.0
_OF_A_STEP_S = 3.0
TOKENS_OF_A_ROW, _ROWS_OF_RETRIEVAL = 40, 2000
_PASS, TRAINING = 2, 6  # operations a weight and token


def minutes_of(
    steps: Mapping[str, Mapping[str, Any]], text_bytes: Mapping[str, int], product_rate: float
) -> dict[str, float]:
    """Return part of the plan -> minutes, without downloads.

    Args:
        steps: of the plan.
        text_bytes: language -> bytes of its local files.
        product_rate: of this machine's matrix products on one core, operations a second.
    """
    slower = _MEASURED_AT / product_rate
    weights = max(
        (num_parameters(step["config"]["model"]) for step in steps.values() if step["stage"] == "pretrain"),
        default=0,
    )
    seconds: defaultdict[str, float] = defaultdict(float)
    for step in steps.values():
        stage, cfg = step["stage"], step["config"]
        part, spent = "other steps", 0.0
        if stage == "corpus mono":
            part, spent = "corpora", slower * text_bytes.get(cfg["lang"], 0) / _TEXT_BYTES_PER_S
        elif stage == "pretrain static":
            updates = slower * cfg.get("updates", 0) / _STATIC_UPDATES_PER_S
            part, spent = "static encoders", updates or 60 * cfg.get("minutes", 0)
        elif stage == "pretrain":
            tokens = int(cfg["train"]["updates"]) * int(cfg["train"]["batch_tokens"])
            part, spent = "Transformer", TRAINING * weights * tokens / (product_rate * EFFICIENCY)
        elif stage in ("eval", "finetune"):
            part, spent = _of_scores(cfg, slower, weights / (product_rate * EFFICIENCY))
        seconds[part] += spent + _OF_A_STEP_S
    return {part: round(each / 60, 1) for part, each in seconds.items()}


def _of_scores(cfg: Mapping[str, Any], slower: float, weight_s: float) -> tuple[str, float]:
    """Return the part and the seconds of one evaluation; ``weight_s`` is the time of one operation a weight."""
    names = [each.partition("=")[0] for each in cfg.get("checkpoints", [])] or ["transformer"]
    is_static = names == ["static"]
    trained = cfg.get("train_rows", 0) * cfg.get("fit", {}).get("epochs", 0) * len(cfg.get("seeds", [1]))
    if is_static:
        return "scores of the static encoder", slower * trained / _STATIC_ROWS_PER_S
    operations = TRAINING * trained if trained else _PASS * _ROWS_OF_RETRIEVAL
    return "scores of the Transformer", len(names) * operations * TOKENS_OF_A_ROW * weight_s
