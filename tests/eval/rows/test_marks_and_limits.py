"""Byte order marks, compression and long lines in every reader of labelled files."""

import bz2
import gzip
import json
import tracemalloc

import pytest

from xling.core.errors import UserError
from xling.eval.rows import readers
from xling.eval.rows.suite import read_rows, suites
from xling.text.files.compressed import MAX_CELL_BYTES
from xling.text.files.dictionary import read_dictionary
from xling.transfer import plans

SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "A b",
                    "qas": [{"id": "1", "question": "q", "answers": [{"text": "b", "answer_start": 2}]}],
                }
            ]
        }
    ]
}
ROW = {"id": "1", "fields": {"text_a": "A", "text_b": "B"}, "label": "entailment"}
# Reader, content of the file, and what its first row must have.
READERS = {
    "columns": (
        readers.columns(separator=None),
        "-DOCSTART- -X- O O\n\nPeter B-PER\n\n",
        {"tokens": ("Peter",)},
    ),
    "comment": (readers.columns(), "# comment\nPeter\tB-PER\n\n", {"tokens": ("Peter",)}),
    "table": (readers.table({"text_a": "first"}, "label"), "first\tlabel\nA\tx\n", {"text_a": "A"}),
    "quoted": (
        readers.table({"text_a": "first"}, "label", quoted=True),
        'first\tlabel\n"A"\tx\n',
        {"text_a": "A"},
    ),
    "conllu": (readers.conllu, "# sent_id = s1\n1\tA" + "\tNOUN" * 8 + "\n\n", {"tokens": ("A",)}),
    "utterances": (readers.utterances, "# id = 1\n# intent = x\n1\tA\tx\tO\n\n", {"tokens": ("A",)}),
    "dictionary": (readers.dictionary, "A\tB\n", {"word": "A"}),
    "labelled": (readers.labelled_lines, "x\tA\n", {"text": "A"}),
    "headless": (
        readers.headless(["a"], ["b"]),
        "A\tB\tx\n",
        {"text_a": "A", "text_b": "B", "document": "0"},
    ),
    "parallel": (readers.parallel, "A\n", {"text_a": "A", "text_b": "A"}),
    "json": (
        readers.json_lines(readers.from_columns({"text": "t"}, "l")),
        '{"t": "A", "l": 1}\n',
        {"text": "A"},
    ),
    "squad": (readers.squad, json.dumps(SQUAD), {"context": "A b", "question": "q", "paragraph": 0}),
    "rows": (
        lambda paths: read_rows(paths, suites()["toy_xnli"].shape),
        json.dumps(ROW) + "\n",
        ROW["fields"],
    ),
}


@pytest.mark.parametrize(
    ("line_end", "pack"), [("\n", bytes), ("\r\n", gzip.compress), ("\r", bz2.compress), ("\r", bytes)]
)
@pytest.mark.parametrize("name", READERS)
def test_marks_line_ends_and_compression_change_nothing(tmp_path, name, line_end, pack):
    read, content, fields = READERS[name]
    path = tmp_path / ("a" if pack is bytes else "a.gz")
    paths = (path, path) if name == "parallel" else (path,)
    path.write_bytes(content.encode())
    plain = [row for *_, row in read(paths)]
    assert plain[0].fields == fields
    path.write_bytes(pack(("\ufeff" + content.replace("\n", line_end)).encode()))
    assert [row for *_, row in read(paths)] == plain


@pytest.mark.parametrize("name", READERS)
def test_a_long_line_is_refused_in_little_memory(tmp_path, name):
    read, content, _ = READERS[name]
    path = tmp_path / "a.gz"
    num = 6 * MAX_CELL_BYTES
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(content.encode() + b"x" * num + b"\n" + content.encode())
    paths = (path, path) if name == "parallel" else (path,)
    if name == "squad":  # published files are one line of up to 100 MB
        return
    tracemalloc.start()
    with pytest.raises(UserError, match=rf"line \d+ has more than {MAX_CELL_BYTES:,} bytes"):
        list(read(paths))
    assert tracemalloc.get_traced_memory()[1] < num
    tracemalloc.stop()


def test_dictionaries_and_test_sets_of_translation(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\ufeffA\tB\nC\tD\n", encoding="utf-8")
    assert read_dictionary(path) == {"a": ("B",), "c": ("D",)}
    assert plans.read_rows(path) == [("A", "B"), ("C", "D")]
    assert plans.read_aligned("en-sw", path, path)[0] == ["A\tB", "C\tD"]
    path.write_text("a" * (MAX_CELL_BYTES + 1))
    for read in (read_dictionary, plans.read_rows, lambda p: plans.read_aligned("en-sw", p, p)):
        with pytest.raises(UserError, match="line 1 has more than"):
            read(path)
