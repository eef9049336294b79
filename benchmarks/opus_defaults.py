"""OpusFilter's default filters beside the default chain, on the same pairs with the same planted noise.

Usage: ``python -m benchmarks.opus_defaults ROWS PYTHON [EVERY]``: ROWS is the Parquet file of ``python -m
benchmarks.noise ... out=ROWS``, PYTHON an interpreter whose environment has the package opusfilter. EVERY=2 takes each
second set. Prints the share dropped by kind, and the clean loss of the sets. Sets are left out where the identifier of
OpusFilter does not know a language.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import polars as pl

from xling.core import languages
from xling.corpora.parallel.planted import KINDS

# What lingua, OpusFilter's default identifier, knows, as ISO 639-1 codes.
LINGUA = frozenset({
    "af", "sq", "ar", "hy", "az", "eu", "be", "bn", "nb", "bs", "bg", "ca", "zh", "hr", "cs", "da", "nl", "en",
    "eo", "et", "fi", "fr", "lg", "ka", "de", "el", "gu", "he", "hi", "hu", "is", "id", "ga", "it", "ja", "kk",
    "ko", "la", "lv", "lt", "mk", "ms", "mi", "mr", "mn", "nn", "fa", "pl", "pt", "pa", "ro", "ru", "sr", "sn",
    "sk", "sl", "so", "st", "es", "sw", "sv", "tl", "ta", "te", "th", "ts", "tn", "tr", "uk", "ur", "vi", "cy",
    "xh", "yo", "zu",
})  # fmt: skip
SCRIPTS = {
    "Latn": "Latin", "Cyrl": "Cyrillic", "Arab": "Arabic", "Grek": "Greek", "Hebr": "Hebrew", "Deva": "Devanagari",
    "Beng": "Bengali", "Taml": "Tamil", "Telu": "Telugu", "Thai": "Thai", "Armn": "Armenian", "Geor": "Georgian",
    "Gujr": "Gujarati", "Guru": "Gurmukhi",
}  # fmt: skip


def codes(name: str) -> tuple[list[str], list[str]] | None:
    """Return ISO 639-1 codes and scripts of both sides of a set, None where OpusFilter lacks one."""
    kind, _, target = name.partition("/")
    langs = [languages.get(code) for code in (target.split("-") if kind == "mafand" else ["eng", target])]
    known = [lang.base for lang in langs], [SCRIPTS.get(lang.script, "") for lang in langs]
    return known if set(known[0]) <= LINGUA and all(known[1]) else None


def main(arguments: list[str]) -> None:
    """Judge the sets, and print a table of both by kind."""
    rows = pl.read_parquet(arguments[0])
    every = int(arguments[2]) if len(arguments) > 2 else 1
    sets = [(name, both) for name in rows["set"].unique(maintain_order=True) if (both := codes(name))][
        ::every
    ]
    worker = Path(__file__).with_name("opus_verdicts.py")
    parts, seconds = [], 0.0
    for name, (langs, scripts) in sets:
        own = rows.filter(pl.col("set") == name)
        item = {"langs": langs, "scripts": scripts, "pairs": own.select("src", "tgt").rows()}
        began = time.perf_counter()
        told = subprocess.run(
            [arguments[1], worker], input=json.dumps(item) + "\n", text=True, capture_output=True, check=True
        )
        seconds += time.perf_counter() - began
        verdicts = json.loads(told.stdout)
        parts.append(own.with_columns(pl.Series("theirs", list(map(bool, verdicts)))))
        clean = parts[-1].filter(pl.col("kind") == "")
        print(
            f"{name}: clean lost {clean['gone'].mean():.4f}, OpusFilter {clean['theirs'].mean():.4f}",
            flush=True,
        )
    whole = pl.concat(parts)
    print(f"{len(sets)} sets, OpusFilter {seconds:.0f} s on the clock")
    print("| kind | pairs | ours | OpusFilter |\n| --- | ---: | ---: | ---: |")
    for kind in ("", *KINDS):
        own = whole.filter(pl.col("kind") == kind)
        if own.height:
            shares = " | ".join(f"{100 * float(own[column].mean()):.1f}" for column in ("gone", "theirs"))
            print(f"| {kind or 'clean'} | {own.height:,} | {shares} |")


if __name__ == "__main__":
    main(sys.argv[1:])
