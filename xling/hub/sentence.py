"""Files with which sentence-transformers computes the sentence vectors of our evaluation from an exported encoder.

Our mean leaves out the specials at both ends, and sentence-transformers' mean does not. So a module between
encoder and pooling gives them the weight 0. Source: sentence-transformers, ``WordWeights`` and ``Pooling``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xling.hub import configs

POOLINGS = ("mean", "cls")
_MODULE_PREFIX = "sentence_transformers.models."
_POOLING_SETTINGS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
}


def write_sentence_modules(
    out: Path, dim: int, token_names: Sequence[str], specials: Sequence[str], pooling: str
) -> None:
    """Write ``modules.json`` and the settings of its modules beside an exported encoder.

    Args:
        out: directory of the export.
        dim: width of the encoder.
        token_names: name of each id.
        specials: names of the tokens that begin and end a text.
        pooling: ``mean`` over the sub-words without specials, or ``cls``.
    """
    assert pooling in POOLINGS, f"pooling {pooling!r}: {', '.join(POOLINGS)}"
    weights = {
        "vocab": list(token_names),
        "word_weights": dict.fromkeys(specials, 0.0),
        "unknown_word_weight": 1.0,
    }
    pooling_settings = {key: name == pooling for name, key in _POOLING_SETTINGS.items()}
    modules: dict[str, Any] = {"Transformer": {}}
    if pooling == "mean":
        modules["WordWeights"] = weights
    modules["Pooling"] = {
        "word_embedding_dimension": dim,
        "pooling_mode_mean_sqrt_len_tokens": False,
        **pooling_settings,
    }
    module_list = []
    for number, (name, settings) in enumerate(modules.items()):
        folder = f"{number}_{name}" if settings else ""
        module_list.append(
            {"idx": number, "name": str(number), "path": folder, "type": _MODULE_PREFIX + name}
        )
        if settings:
            (out / folder).mkdir()
            configs.write_json(out / folder / "config.json", settings)
    configs.write_json(out / "modules.json", module_list)
