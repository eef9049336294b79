"""How much of a test set is in a pre-training corpus: shared 13-grams, and scores on the clean rest.

Source: Brown et al. 2020 (GPT-3), appendix C: 13-grams of lower-cased words without punctuation. Two
    departures,
both printed: scripts without spaces are read by character, and a row of fewer than 13 tokens is looked up
whole if it has at least eight, and counted apart if it has not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import xxhash

from xling.core.answer import Answer
from xling.core.errors import UserError
from xling.eval import predictions
from xling.eval.metrics.text import words
from xling.eval.results import Score
from xling.eval.suite import Example, Suite, data_folder, load, suites
from xling.text import reader

if TYPE_CHECKING:
    from jaxtyping import UInt64

N = 13
SHORTEST = 8
CHUNK_CHARS = 1 << 22

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class ContaminationConfig:
    """Settings of ``xling eval contamination``.

    Args:
        run: folder of a run whose predictions are scored on the clean rows.
        corpus: text files (also .jsonl with ``text``), plain or compressed, or folders of them.
        data: folder of the suites' files; default: what XLING_DATA names.
    """

    run: Path
    corpus: tuple[Path, ...]
    data: Path | None = None


@dataclass(frozen=True)
class Contamination:
    """What a corpus holds of one language's rows.

    Attributes:
        suite: registry name.
        lang: language or pair.
        split: rows looked at.
        found: ids of rows with a shared n-gram.
        too_short: ids of rows with fewer than eight tokens, which are not looked up.
        n: number of rows.
    """

    suite: str
    lang: str
    split: str
    found: frozenset[str]
    too_short: frozenset[str]
    n: int

    @property
    def share(self) -> float:
        """Percent of the rows that were looked up and found; 0 when none could be."""
        looked_up = self.n - len(self.too_short)
        return 100 * len(self.found) / looked_up if looked_up else 0.0


@dataclass(frozen=True)
class _Wanted:
    """Hashes of the n-grams of one language's rows, by n."""

    suite: Suite
    lang: str
    split: str
    rows: list[Example]
    grams: list[tuple[int, npt.NDArray[np.uint64]]]


def run(cfg: ContaminationConfig) -> Answer:
    """The share of contaminated rows per suite and language, and the scores with and without them."""
    data = data_folder(cfg.data)
    files = predictions.files(cfg.run)
    origins = [predictions.read_origin(path) for path in files]
    tests = sorted({(o.suite, o.lang, o.split) for o in origins})
    found = check(tests, corpus_texts(cfg.corpus), data)
    lines = [
        "| suite | lang | rows | contaminated | too short | system | all | clean rest |",
        "|---" * 8 + "|",
    ]
    rows = []
    for path, origin in zip(files, origins, strict=True):
        facts = found[origin.suite, origin.lang, origin.split]
        every, clean = scores_on_clean(path, facts, data)
        rest = f"{clean.value:.1f} ({clean.n} rows)" if clean else "no row is clean"
        name = f"{origin.system} {origin.select} seed {origin.seed}"
        lines.append(
            f"| {origin.suite} | {origin.lang} | {facts.n} | {facts.share:.1f} % | {len(facts.too_short)} "
            f"| {name} | {every.value:.1f} | {rest} |"
        )
        looked = {"rows": facts.n, "contaminated": sorted(facts.found), "too_short": len(facts.too_short)}
        both = {"all": asdict(every), "clean": asdict(clean) if clean else None}
        rows.append({"suite": origin.suite, "lang": origin.lang, **looked, **both})
    return Answer("\n".join(lines), rows)


def scores_on_clean(path: Path, facts: Contamination, data: Path) -> tuple[Score, Score | None]:
    """The main score on every row, and on the rows that were looked up and not found."""
    main = [suites()[facts.suite].metric]
    dirty = facts.found | facts.too_short
    clean = predictions.score_file(path, data, main, lambda row: row.id not in dirty)
    return predictions.score_file(path, data, main)[0], clean[0] if clean else None


def check(
    tests: Sequence[tuple[str, str, str]], texts: Iterable[str], data: Path
) -> dict[tuple[str, str, str], Contamination]:
    """Look up the rows of (suite, lang, split) in the texts of a corpus, in one pass over it."""
    wanted = [_wanted(suites()[suite], lang, split, data) for suite, lang, split in tests]
    lengths = sorted({n for w in wanted for n, _ in w.grams if n})
    sought = {
        n: np.unique(np.concatenate([g for w in wanted for m, g in w.grams if m == n])) for n in lengths
    }
    hits: dict[int, set[int]] = {n: set() for n in lengths}
    for text in texts:
        tokens = hashed_tokens(text)
        for n in lengths:
            grams = ngram_hashes(tokens, n)
            hits[n].update(grams[np.isin(grams, sought[n])].tolist())
    return {(w.suite.name, w.lang, w.split): _facts(w, hits) for w in wanted}


def row_text(row: Example) -> str:
    """The text of a row that a model would have to have seen: a question, both sides of a pair."""
    fields = row.fields
    names = ("text_a", "text_b", "text", "premise", "question", "word")
    parts = [fields[name] for name in names if isinstance(fields.get(name), str)]
    parts += [" ".join(fields["tokens"])] if "tokens" in fields else []
    parts += list(fields.get("choices", ()))
    return " ".join(parts)


def hashed_tokens(text: str) -> UInt64[np.ndarray, " tokens"]:
    """Hashes of a text's lower-cased words, in scripts without spaces of its characters; uint64 (n,)."""
    hashes = [xxhash.xxh3_64_intdigest(token.encode()) for token in words(text)]
    return np.array(hashes, dtype=np.uint64)


def ngram_hashes(tokens: UInt64[np.ndarray, " tokens"], n: int) -> UInt64[np.ndarray, " ngrams"]:
    """A 64-bit polynomial hash of every n-gram, uint64 (max(0, num_tokens - n + 1),)."""
    count = len(tokens) - n + 1
    if count < 1:
        return np.zeros(0, dtype=np.uint64)
    total = np.zeros(count, dtype=np.uint64)
    for i in range(n):
        total = total * _FACTOR + tokens[i : i + count]
    return total


def corpus_texts(paths: Iterable[Path]) -> Iterator[str]:
    """Texts of a corpus, each a few million characters of whole lines.

    Raises:
        UserError: nothing is there, a folder holds no text file, or a line cannot be read.
    """
    for path in paths:
        if not path.exists():
            raise UserError(f"no corpus at {path}", fix="give text files or folders of them")
        parts = sorted(p for p in path.rglob("*") if _is_text(p)) if path.is_dir() else [path]
        if not parts:
            raise UserError(
                f"{path} holds no text", "files in .txt or .jsonl, also compressed (.gz, .bz2, .xz, .zst)"
            )
        for part in parts:
            yield from _texts(part)


def _is_text(path: Path) -> bool:
    return path.is_file() and _plain_name(path).endswith((".txt", ".jsonl")) and path.stat().st_size > 0


def _plain_name(path: Path) -> str:
    return path.stem if path.suffix in (".gz", ".bz2", ".xz", ".zst") else path.name


def _texts(path: Path) -> Iterator[str]:
    as_json = _plain_name(path).endswith(".jsonl")
    held: list[str] = []
    size = 0
    for number, line in enumerate(reader.lines(path), 1):
        if as_json and not line.strip():
            continue
        held.append(_text_of(path, number, line) if as_json else line)
        size += len(held[-1])
        if size > CHUNK_CHARS:
            yield "\n".join(held)
            held, size = [], 0
    if held:
        yield "\n".join(held)


def _text_of(path: Path, number: int, line: str) -> str:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} line {number}: not JSON: {error}") from None
    text = record.get("text") if isinstance(record, dict) else None
    if not isinstance(text, str):
        raise UserError(f"{path} line {number}: no object with a text", '{"text": "..."}')
    return text


def _wanted(suite: Suite, lang: str, split: str, data: Path) -> _Wanted:
    rows = load(suite, lang, split, data)
    grams = []
    for row in rows:
        tokens = hashed_tokens(row_text(row))
        n = min(N, len(tokens)) if len(tokens) >= SHORTEST else 0
        grams.append((n, ngram_hashes(tokens, n) if n else np.zeros(0, dtype=np.uint64)))
    return _Wanted(suite, lang, split, rows, grams)


def _facts(wanted: _Wanted, hits: dict[int, set[int]]) -> Contamination:
    pairs = list(zip(wanted.rows, wanted.grams, strict=True))
    return Contamination(
        wanted.suite.name,
        wanted.lang,
        wanted.split,
        frozenset(row.id for row, (n, grams) in pairs if n and not hits[n].isdisjoint(grams.tolist())),
        frozenset(row.id for row, (n, _) in pairs if not n),
        len(wanted.rows),
    )
