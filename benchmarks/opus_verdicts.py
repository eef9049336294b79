"""What OpusFilter's default filters say of sentence pairs; runs in an environment of its own, with nothing of xling.

Usage: ``PYTHON benchmarks/opus_verdicts.py < ROWS > VERDICTS``, where PYTHON has the package opusfilter. A row is
a JSON object with ``langs`` (two ISO 639-1 codes), ``scripts`` (two names of scripts as Unicode has them), ``pairs``. A
verdict is a JSON list with the names of the filters that drop each pair. The filters and their settings are those of
``opusfilter-autogen --method defaults``.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def chain(langs: list[str], scripts: list[str]) -> dict[str, Any]:
    """Return name -> filter; the identifier is left out where it does not know a language."""
    autogen, filters = (importlib.import_module(f"opusfilter.{name}") for name in ("autogen", "filters"))
    generator = autogen.DefaultParameterFilters(langs=langs, scripts=scripts)
    made = {}
    for name, settings in generator.filters_to_add:
        if name.startswith("Lingua") and "" in langs:
            continue
        config = generator.get_filter_parameters(name, settings)
        made[f"{name}{len(made)}"] = getattr(filters, name)(**config[name])
    return made


def main() -> None:
    """Judge what stands on standard input, a set a line."""
    for line in sys.stdin:
        item = json.loads(line)
        verdicts: list[list[str]] = [[] for _ in item["pairs"]]
        for name, each in chain(item["langs"], item["scripts"]).items():
            for verdict, score in zip(verdicts, each.score(item["pairs"]), strict=True):
                if not each.accept(score):
                    verdict.append(name)
        print(json.dumps(verdicts), flush=True)


if __name__ == "__main__":
    main()
