"""Every input of a folder of odd files by the command line: what is read and kept, why, and whether it is right.

``python -m benchmarks.cases ../shared/cases`` prints one row a command and ends with 1 if a row is wrong, or if a file
of the folder has no row. A user's mistake ends with exit code 2 and one line, which the row shows.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xling import cli

_RAW = ("dedup=false", "near_dedup=false", "after_dedup=[]", "before_dedup=repair")
_DEFAULT: tuple[str, ...] = ()
_PAIRS = ("filters=repair", "audit=false", "dev_pairs=0", "test_pairs=0")


@dataclass(frozen=True)
class Case:
    """One command and its right result.

    Attributes:
        lang: the language, or the pair with a dash.
        source: scheme and name of the file.
        settings: of the command.
        read: documents or pairs of the file; 0 where the command refuses it.
        kept: those of them in the corpus.
        said: what stands in the corpus or in the last lines, such as a repaired word or the remedy of an error.
    """

    lang: str
    source: str
    settings: tuple[str, ...]
    read: int = 0
    kept: int = 0
    said: str = ""


CASES = (
    Case("sw", "jsonl:one-line-documents.jsonl", _DEFAULT, 20, 20),
    Case("sw", "jsonl:one-line-mixed.jsonl", _DEFAULT, 20, 20),
    Case("sw", "lines:one-line-documents.txt", ("before_dedup=repair",), 20, 20),
    Case("sw", "wiki:one-paragraph-wiki.xml", _DEFAULT, 4, 4),
    Case("sw", "jsonl:json-array.json", _RAW, said="jq -c '.[]'"),
    Case("sw", "jsonl:json-pretty.json", _RAW, said="jq -c '.[]'"),
    Case("sw", "jsonl:json-cr.jsonl", _RAW, 3, 3),
    Case("sw", "jsonl:json-odd.jsonl", _RAW, 27, 13, "less than half was kept"),
    Case("sw", "jsonl:json-trailingcomma.jsonl", _RAW, 3, 3, "comma at their end, read without it: 2"),
    Case("sw", "jsonl:json-u16le.jsonl", _RAW, said="iconv -f UTF-16LE"),
    Case("sw", "jsonl:zstd-w29.jsonl.zst", _RAW, 50, 50),
    Case("sw", "jsonl:zstd-w31.jsonl.zst", _RAW, 50, 50),
    Case("sw", "text:text-blankspaces.txt", _RAW, 4, 4),
    Case("sw", "text:text-ff.txt", _RAW, 4, 4),
    Case("sw", "text:text-mac.txt", _RAW, 4, 4),
    Case("sw", "text:text-u16.txt", _RAW, 4, 4),
    Case("sw", "text:text-u16le.txt", _RAW, said="iconv -f UTF-16LE"),
    Case("fr", "text:text-fr-latin1.txt", _RAW, said="iconv -f CP1252"),
    Case("zh", "text:text-zh-gbk.txt", _RAW, said="iconv -f GB18030"),
    Case("el", "text:mojibake-el.1253as1252.txt", _DEFAULT, 8, 8, "βουλευτές"),
    Case("fr", "text:mojibake-fr.qmarks.txt", _DEFAULT, said="question marks in the places of letters"),
    Case("fr", "text:mojibake-fr.u8asmacroman.txt", _DEFAULT, 8, 8, "Des élus gallois sont consternés"),
    Case("pl", "text:mojibake-pl.1250as1252.txt", _DEFAULT, 8, 8, "złożone z możniejszych"),
    Case("ro", "text:mojibake-ro.1250as1252.txt", _DEFAULT, 8, 8, "îngrijoraţi din cauza faptului că"),
    Case("ru", "text:mojibake-ru.1251as1252.txt", _DEFAULT, 8, 8, "Члены Ассамблеи Уэльса"),
    Case("tr", "text:mojibake-tr.1254as1252.txt", _DEFAULT, 8, 8, "Unvanlarının"),
    Case("en", "text:tokenised.en", _RAW, 1, 1, "was tokenised before"),
    Case("sw", "parquet:parquet-binary.parquet", _RAW, 10, 10),
    Case("sw", "parquet:parquet-dates.parquet", _RAW, 10, 10),
    Case("sw", "parquet:parquet-list.parquet", _RAW, 10, 10),
    Case("sw", "parquet:parquet-one_bad_of_10.parquet", _RAW, 10, 9),
    Case("sw", "parquet:parquet-struct.parquet", _RAW, said="not text"),
    Case("sw", "parquet:parquet-tsbad.parquet", _RAW, 10, 10),
    Case("ar_Latn", "text:ar_latn.txt", _DEFAULT, said="no available model identifies ar_Latn"),
    Case("hi_Latn", "text:hi_latn.txt", _DEFAULT, said="no available model identifies hi_Latn"),
    Case("ja", "wiki:wiki-tables.xml", _RAW, 3, 1, "彼は2010年に引退した。"),
    Case("en", "wiki:wiki-templates.xml", _RAW, 3, 3, "The lake is 3 to 5 km wide"),
    Case("zh", "wiki:wiki-zh-variants.xml", _RAW, 1, 1, "这台打印机是在意大利制造的。"),
    Case("en-sw", "csv:csv-names.csv", _PAIRS, 40, 40),
    Case("en-sw", "csv:csv-region.csv", _PAIRS, 40, 40),
    Case("en-sw", "csv:csv-semi.csv", _PAIRS, 40, 40),
    Case("en-sw", "csv:csv-semicomma.csv", _PAIRS, 40, 40, "opened, again in the spring."),
    Case("en-sw", "csv:csv-stray.csv", _PAIRS, 40, 39),
    Case("en-sw", "csv:csv-stray2.csv", _PAIRS, 40, 38),
    Case("en-de", "tmx:tmx-amp.tmx", _PAIRS, 11, 10),
    Case("en-de", "tmx:tmx-ctrl.tmx", _PAIRS, 21, 20),
    Case("en-de", "tmx:tmx-utf16.tmx", _PAIRS, 10, 10),
    Case("en-de", "tmx:tmx-mix.tmx", _PAIRS, 10, 10),
    Case("en-sw", "tmx:tmx-mix.tmx", _PAIRS, said="its units have: de (German), en (English), ger (German)"),
    Case("en-id", "tmx:tmx-in.tmx", _PAIRS, 1, 1),
    Case("en-he", "tmx:tmx-iw.tmx", _PAIRS, 2, 2),
    Case("en-zh_Hant", "tmx:tmx-var.tmx", _PAIRS, 2, 2, "圖書館"),
    Case("en-zh", "tmx:tmx-var.tmx", _PAIRS, 2, 2, "图书馆"),
    Case("en-sr_Latn", "tmx:tmx-var.tmx", _PAIRS, 2, 2, "Biblioteka"),
    Case("en-sr", "tmx:tmx-var.tmx", _PAIRS, 2, 2, "Библиотека"),
)


@dataclass(frozen=True)
class Outcome:
    """What a command did: exit code, documents or pairs read and kept, reasons of drops, the lines it ended with."""

    code: int
    read: int
    kept: int
    reasons: str
    said: str

    def is_right(self, case: Case) -> bool:
        """Return whether this is the case's right result; a refusal is one line that begins with the program."""
        counts = (0, case.read, case.kept) if case.read else (2, 0, 0)
        return (self.code, self.read, self.kept) == counts and case.said in self.said


def run(case: Case, folder: Path) -> Outcome:
    """Run one case on the files of ``folder``, in this process."""
    scheme, _, name = case.source.partition(":")
    what, key = ("parallel", "pair") if "-" in case.lang else ("mono", "lang")
    with tempfile.TemporaryDirectory() as root:
        out = Path(root) / "out"
        words = ["corpus", what, f"{key}={case.lang}", f"source={scheme}:{folder / name}", f"out={out}"]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = cli.main([*words, *case.settings])
        said = printed.getvalue()
        if code:
            return Outcome(code, 0, 0, said.strip().rpartition("\n")[2], said)
        ledger = json.loads((out / "stats.json").read_text(encoding="utf-8"))["ledger"]
        reasons = ", ".join(f"{key.replace(chr(9), '/')} {num}" for key, num in ledger["dropped"].items())
        return Outcome(code, ledger["seen"]["read"], ledger["seen"]["corpus"], reasons, said + _text(out))


def _text(out: Path) -> str:
    """Return the text of a published corpus: that of its documents, or of its training pairs."""
    import polars as pl

    if trains := sorted(out.glob("train.*")):
        return "\n".join(path.read_text(encoding="utf-8") for path in trains)
    return "\n".join(pl.read_parquet(out / "shards" / "*.parquet")["text"])


def main(arguments: Sequence[str]) -> int:
    """Print the table of the cases in a folder; return 1 if one of them is wrong, or a file has none."""
    if len(arguments) != 1 or not (folder := Path(arguments[0]) / "corpora").is_dir():
        print("usage: python -m benchmarks.cases FOLDER, with FOLDER/corpora", file=sys.stderr)
        return 2
    print(
        "| case | command | read | kept | reasons | expected | ok |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    num_wrong = 0
    for case in CASES:
        outcome = run(case, folder)
        num_wrong += not outcome.is_right(case)
        expected = f"{case.kept} of {case.read}" if case.read else "refused"
        shown = f"{case.lang} {' '.join(case.settings)}".strip()
        answer = "yes" if outcome.is_right(case) else "NO"
        print(
            f"| {case.source} | {shown} | {outcome.read} | {outcome.kept} | {outcome.reasons[:120]} "
            f"| {expected}{f': {case.said}' if case.said else ''} | {answer} |"
        )
    known = {case.source.partition(":")[2] for case in CASES}
    missing = sorted(path.name for path in folder.iterdir() if path.name not in known)
    print(
        f"{len(CASES) - num_wrong} of {len(CASES)} are right; files without a case: {', '.join(missing) or 'none'}"
    )
    return int(bool(num_wrong or missing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
