"""Overlap of test sets with a corpus, by suite, language and side, and scores on the rows outside of the corpus.

Every passage of every row is searched for (`xling.text.leaks`): both sides of a pair, contexts, references. A
row is exposed if the corpus contains any of its passages. In suites whose rows are translations of each
other, a row is also exposed through the row with the same id in another language.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from xling.core.commands.inputs import check_new_file
from xling.core.errors import UserError
from xling.core.output.command_result import Answer
from xling.core.output.manifest import write_atomic
from xling.eval.leaks.row_index import TestSet, entries, tests_in
from xling.eval.rows.suite import load, suites
from xling.eval.scores import predictions
from xling.eval.scores.score_file import Score
from xling.pages import tabular
from xling.text.files import corpus_reader
from xling.text.leaks import Leaks

FORMAT = "xling-exposure 1"
MAX_CHARS = 1 << 20
"""A longer document, such as a file without an empty line, is read in parts."""


@dataclass(frozen=True)
class ContaminationConfig:
    """Settings of ``xling eval contamination``.

    Args:
        run: folder of a run whose predictions are scored on the rows that are not in the corpus.
        corpus: text files (also .jsonl with ``text``), plain or compressed, or folders of them.
        data: folder of the suites' files; default: what XLING_DATA names.
        out: file of the exposed rows, for ``table.exposure=`` of ``xling eval`` and ``eval rescore``; default: none. An
            existing one is not replaced.
    """

    run: Path
    corpus: tuple[Path, ...]
    data: Path | None = None
    out: Path | None = None


@dataclass
class Exposure:
    """Overlap of a corpus with the rows of one suite, language and split.

    Attributes:
        n: number of rows.
        sides: side -> ids of the rows whose passage of this name is in the corpus.
        translated: ids of rows that are in the corpus in another language.
    """

    n: int
    sides: dict[str, set[str]] = field(default_factory=dict)
    translated: set[str] = field(default_factory=set)

    @property
    def rows(self) -> set[str]:
        """Ids of the rows of which any passage is in the corpus."""
        return set().union(*self.sides.values())


def run(cfg: ContaminationConfig) -> Answer:
    """Return the exposed rows by suite, language and side, and the scores with and without them."""
    if cfg.out:
        check_new_file(cfg.out)
    data = predictions.data_for(cfg.data, cfg.run)
    files = predictions.files(cfg.run)
    origins = [predictions.read_origin(path) for path in files]
    tests = sorted({(o.suite, o.lang, o.split) for o in origins})
    exposures = find_exposed(tests, corpus_texts(cfg.corpus), data)
    side_table = [["suite", "lang", "side", "rows", "exposed"]]
    for (suite, lang, _), exposure in exposures.items():
        shown = {**exposure.sides, "any": exposure.rows, "translation": exposure.translated}
        side_table += [
            [suite, lang, side, str(exposure.n), f"{len(ids)} ({100 * len(ids) / exposure.n:.1f} %)"]
            for side, ids in shown.items()
            if ids or side == "any"
        ]
    table, rows = [["suite", "lang", "system", "all rows", "unexposed rows"]], []
    for path, origin in zip(files, origins, strict=True):
        exposure = exposures[origin.suite, origin.lang, origin.split]
        every, clean = scores_on_clean(path, exposure.rows, data)
        rest = f"{clean.value:.1f} ({clean.n} rows)" if clean else "no row is unexposed"
        name = f"{origin.system} {origin.select} seed {origin.seed}"
        table.append([origin.suite, origin.lang, name, f"{every.value:.1f}", rest])
        both = {"all": asdict(every), "clean": asdict(clean) if clean else None}
        rows.append({"suite": origin.suite, "lang": origin.lang, **_exposure_data(exposure), **both})
    texts = [False] * 3
    lines = [
        *tabular.markdown_grid(side_table, [*texts, True, True]),
        "",
        *tabular.markdown_grid(table, [*texts, True, True]),
    ]
    if cfg.out:
        listed = [
            {"suite": s, "lang": x, "split": p, **_exposure_data(exposure)}
            for (s, x, p), exposure in exposures.items()
        ]
        write_atomic(
            cfg.out, json.dumps({"format": FORMAT, "exposed": listed}, ensure_ascii=False, indent=0) + "\n"
        )
        lines += ["", f"written: {cfg.out}"]
    return Answer("\n".join(lines), rows)


def _exposure_data(exposure: Exposure) -> dict[str, Any]:
    sides = {side: sorted(ids) for side, ids in exposure.sides.items() if ids}
    return {
        "rows": exposure.n,
        "exposed": sorted(exposure.rows),
        "sides": sides,
        "translated": sorted(exposure.translated),
    }


def read_exposure(path: Path) -> dict[TestSet, frozenset[str]]:
    """Read the exposed rows written by `run`: (suite, language, split) -> ids.

    Raises:
        UserError: no such file, or another one.
    """
    if not path.is_file():
        raise UserError(
            f"no exposure at {path}", fix=f"xling eval contamination RUN corpus=FILES out={path} writes it"
        )
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']!r}")
        return {(r["suite"], r["lang"], r["split"]): frozenset(r["exposed"]) for r in document["exposed"]}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} lists no exposed rows: {error}", FORMAT, "create it again") from None


def scores_on_clean(path: Path, exposed: set[str], data: Path) -> tuple[Score, Score | None]:
    """Return the main score on every row, and on the rows that are not in the corpus."""
    main = [suites()[predictions.read_origin(path).suite].metric]
    clean = predictions.score_file(path, data, main, lambda row: row.id not in exposed)
    return predictions.score_file(path, data, main)[0], clean[0] if clean else None


def find_exposed(tests: Sequence[TestSet], texts: Iterable[str], data: Path) -> dict[TestSet, Exposure]:
    """Look for the rows of tests in the texts of a corpus, in one pass over it.

    Of suites whose rows are translations of each other the other available languages are searched too.
    """
    parallel_suites = {name for name, _, _ in tests if suites()[name].is_parallel}
    splits = {split for _, _, split in tests}
    parallel_tests = [
        test
        for test in tests_in(sorted(parallel_suites), splits, data)
        if (test[0], test[2]) in {(t[0], t[2]) for t in tests}
    ]
    index = Leaks.build(entries(dict.fromkeys([*tests, *parallel_tests]), data))
    hits: dict[str, set[str]] = {}
    for text in texts:
        for row in index.find(text).tolist():
            for group, name in index.entries(row):
                hits.setdefault(group, set()).add(name)
    exposures: dict[TestSet, Exposure] = {}
    for test in tests:
        rows = load(suites()[test[0]], test[1], test[2], data)
        sides = dict.fromkeys(side for row in rows for side in suites()[test[0]].shape.passages(row))
        exposures[test] = Exposure(
            len(rows), {side: hits.get(" ".join([*test, side]), set()) for side in sides}
        )
        if test[0] in parallel_suites:
            parts = [(group.split(" "), ids) for group, ids in hits.items()]
            other_tests = [
                ids
                for (suite, lang, split, _), ids in parts
                if (suite, split) == (test[0], test[2]) and lang != test[1]
            ]
            exposures[test].translated = set().union(*other_tests) & {row.id for row in rows}
    return exposures


def corpus_texts(paths: Iterable[Path]) -> Iterator[str]:
    """Yield documents of a corpus.

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
    return (
        path.is_file()
        and _name_without_compression(path).endswith((".txt", ".jsonl"))
        and path.stat().st_size > 0
    )


def _name_without_compression(path: Path) -> str:
    return path.stem if path.suffix in (".gz", ".bz2", ".xz", ".zst") else path.name


def _texts(path: Path) -> Iterator[str]:
    """Documents: a JSON object each, else what stands between empty lines."""
    as_json = _name_without_compression(path).endswith(".jsonl")
    paragraph_lines: list[str] = []
    size = 0
    for number, line in enumerate(corpus_reader.read_lines(path), 1):
        if as_json and line.strip():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UserError(
                    f"{path} line {number}: not JSON: {error}", "one JSON object per line", "correct the line"
                ) from None
            text = record.get("text") if isinstance(record, dict) else None
            if not isinstance(text, str):
                raise UserError(f"{path} line {number}: not a JSON object with a text", '{"text": "..."}')
            yield text
        elif not as_json:
            paragraph_lines.append(line)
            size += len(line)
            if not line.strip() or size > MAX_CHARS:
                yield "\n".join(paragraph_lines)
                paragraph_lines, size = [], 0
    if paragraph_lines:
        yield "\n".join(paragraph_lines)
