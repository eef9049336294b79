"""Tags that mark spans: read as IOB2, and written as the training rows have them."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from xling.core.settings.config import from_dict
from xling.eval.rows import own
from xling.eval.rows.own_files import OwnFiles
from xling.eval.rows.tag_schemes import iob2_of, marks_of, written_with


@pytest.mark.parametrize(
    ("scheme", "tags", "wanted"),
    [
        ("BIO", "I-A I-A B-A I-B O I-B", "B-A I-A B-A B-B O B-B"),
        ("BIOES", "S-A S-A B-A E-A E-A I-A", "B-A B-A B-A I-A B-A B-A"),
        ("BIOES", "B_A M_A E_A W_B O", "B-A I-A I-A B-B O"),
        ("IO", "A A O A B", "B-A I-A O B-A B-B"),
        ("plain", "NOUN B-X O", "NOUN B-X O"),
    ],
)
def test_a_span_begins_at_its_mark_and_where_the_one_before_has_ended(
    scheme: str, tags: str, wanted: str
) -> None:
    assert iob2_of(tags.split(), scheme) == tuple(wanted.split())


@given(
    tags=st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), max_size=8),
    marks=st.sampled_from(["", "BIES", "BILU", "BMES", "BMEW"]),
)
def test_answers_in_the_scheme_of_the_training_rows_are_the_same_spans(tags: list[str], marks: str) -> None:
    tags = list(iob2_of(tags, "BIO"))
    written = written_with(marks, tags)
    assert {tag[0] for tag in written} <= {"O", *(marks or "BI")}
    assert list(iob2_of(written, "BIOES" if marks else "BIO")) == tags


@pytest.mark.parametrize(
    ("scheme", "tags", "marks"),
    [
        ("BIO", "B-A I-A O", ""),
        ("IO", "A A O", "IO"),
        ("BIOES", "B-A I-A E-A S-B", "BIES"),
        ("BIOES", "B-A L-A O", "BILU"),
        ("BIOES", "B-A M-A E-A W-A", "BMEW"),
    ],
)
def test_the_marks_of_the_training_rows_are_recorded(
    tmp_path: Path, scheme: str, tags: str, marks: str
) -> None:
    assert marks_of(tags.split(), scheme) == marks
    (tmp_path / "x.conll").write_text("".join(f"word {tag}\n" for tag in tags.split()))
    own_files = from_dict(OwnFiles, {"tags": [str(tmp_path / "x.conll")]})
    assert own.define(own_files, "en", "test").marks == marks
    assert written_with("IO", ["B-A", "I-A", "O"]) == ("A", "A", "O")
