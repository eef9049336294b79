"""Own files whose rows stand in other forms: spans of a text, lists in cells, columns that have to be asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.eval.rows.test_own_files import rows_of, suite_of, written
from xling.core.errors import UserError

TEXT = "Ana (Bogotá) ran."
WORDS = ("Ana", "(", "Bogotá", ")", "ran", ".")
TAGS = ("B-PER", "O", "B-LOC", "O", "O", "O")
BOTH = [(0, 3, "PER"), (5, 11, "LOC")]


def _label_studio(offset: int = 0) -> list[dict[str, Any]]:
    return [
        {"start": begin + offset, "end": end + offset, "text": TEXT[begin:end], "labels": [name]}
        for begin, end, name in BOTH
    ]


EXPORTS: dict[str, dict[str, Any]] = {
    "doccano": {"id": 7, "text": TEXT, "label": [list(span) for span in BOTH]},
    "doccano, later": {"id": 7, "text": TEXT, "relations": [], "Comments": [], "entities": [
        {"id": n, "label": t, "start_offset": b, "end_offset": e} for n, (b, e, t) in enumerate(BOTH)
    ]},
    "Prodigy": {"text": TEXT, "tokens": [{"text": w, "id": i} for i, w in enumerate(WORDS)],
                "spans": [{"start": b, "end": e, "label": t} for b, e, t in reversed(BOTH)]},
    "Label Studio": {"data": {"text": TEXT}, "annotations": [{"result": [
        {"value": value, "type": "labels"} for value in _label_studio()
    ]}]},
    "Label Studio, JSON-MIN": {"text": TEXT, "label": _label_studio()},
}  # fmt: skip


@pytest.mark.parametrize("record", EXPORTS.values(), ids=EXPORTS.keys())
def test_spans_of_a_text_are_words_with_tags(tmp_path: Path, record: dict[str, Any]) -> None:
    lines = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in (record, record))
    suite = suite_of("tags", written(tmp_path, "es.test.jsonl", lines))
    assert [(row.fields["tokens"], row.label) for row in rows_of(suite, "es")] == [(WORDS, TAGS)] * 2


def test_rows_that_prodigy_has_not_accepted_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"text": TEXT, "spans": [{"start": 0, "end": 3, "label": "PER"}]}
    lines = [json.dumps(row | {"answer": answer}) + "\n" for answer in ("accept", "reject", "ignore")]
    suite = suite_of("tags", written(tmp_path, "es.test.jsonl", "".join(lines)))
    assert len(rows_of(suite, "es")) == 1
    assert "2 rows that were not accepted left out" in capsys.readouterr().err
    with pytest.raises(UserError, match="no row has the answer accept"):
        suite_of("tags", written(tmp_path, "es.test.jsonl", lines[1]))


def test_classes_that_prodigy_has_not_accepted_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("a", "x", "accept"), ("b", "x", "reject"), ("c", "y", "accept"), ("d", "y", "ignore")]
    lines = "".join(json.dumps({"text": t, "label": name, "answer": a}) + "\n" for t, name, a in rows)
    suite = suite_of("classes", written(tmp_path, "es.test.jsonl", lines))
    assert [(row.fields["text"], row.label) for row in rows_of(suite, "es")] == [("a", "x"), ("c", "y")]
    assert "2 rows that were not accepted left out" in capsys.readouterr().err
    lines = "".join(
        json.dumps({"text": t, "answer": a}) + "\n" for t, _, a in rows
    )  # where the answer is the class
    suite = suite_of("classes", written(tmp_path, "es.test.jsonl", lines))
    assert [row.label for row in rows_of(suite, "es")] == ["accept", "reject", "accept", "ignore"]


def test_tasks_that_label_studio_has_called_off_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled = EXPORTS["Label Studio"]
    called_off = {"was_cancelled": True, "result": []}
    records = [
        {"data": {"text": TEXT}, "annotations": [called_off]},
        labelled,
        labelled | {"annotations": [called_off, *labelled["annotations"]]},
    ]
    lines = "".join(json.dumps(each) + "\n" for each in records)
    suite = suite_of("tags", written(tmp_path, "es.test.jsonl", lines))
    assert [row.label for row in rows_of(suite, "es")] == [TAGS] * 2
    assert "1 rows that were not accepted left out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "spans", "message"),
    [
        ("Ana ran", [(0, 2)], "1 of 1 spans begin or end within a word"),  # the last character, not the one behind
        ("é Ana ran", [(3, 6)], "1 of 1 spans begin or end within a word"),  # bytes
        ("Ana, Bo-Lu ran", [(0, 3), (5, 7), (8, 10)], ""),
        ("安娜在波哥大 ran", [(0, 2), (3, 6)], ""),
    ],
)  # fmt: skip
def test_spans_that_cut_words_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, spans: list[tuple[int, int]], message: str
) -> None:
    record = {"text": text, "label": [[*ends, "PER"] for ends in spans]}
    suite_of("tags", written(tmp_path, "es.test.jsonl", json.dumps(record) + "\n"))
    out = capsys.readouterr().err
    assert message in out
    assert bool(message) == ("within a word" in out)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"text": TEXT, "label": [[0, 12, "PER"], [5, 11, "LOC"]]}, "5 to 11 .LOC. lies in another"),
        ({"text": TEXT, "label": [[0, 99, "PER"]]}, "not in 17 characters"),
        ({"text": TEXT, "label": _label_studio(1)}, "6 to 12 is .*, and should be .Bogotá."),
    ],
)
def test_spans_that_are_not_those_of_the_text_are_refused(
    tmp_path: Path, record: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=f"jsonl:1: .*{said}"):
        suite_of("tags", written(tmp_path, "es.test.jsonl", json.dumps(record) + "\n"))


@pytest.mark.parametrize(
    "text",
    [
        "id,tokens,ner_tags\n1,\"['Ana', 'ran']\",\"['B-PER', 'O']\"\n2,['Go'],['O']\n",
        "tokens,ner_tags\n['Ana' 'ran'],['B-PER' 'O']\n['Go'],['O']\n",
        "tokens,ner_tags\n\"['Ana'\n 'ran']\",\"['B-PER'\n 'O']\"\n['Go'],['O']\n",
        'ner_tags\ttokens\n["B-PER", "O"]\t["Ana", "ran"]\n["O"]\t["Go"]\n',
    ],
    ids=["Python", "numpy", "numpy, a long line", "JSON, tabs, tags first"],
)
def test_cells_may_be_lists(tmp_path: Path, text: str) -> None:
    suite = suite_of("tags", written(tmp_path, "sw.test.csv", text))
    rows = [(row.fields["tokens"], row.label) for row in rows_of(suite, "sw")]
    assert rows == [(("Ana", "ran"), ("B-PER", "O")), (("Go",), ("O",))]


def test_lists_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="csv:2: 2 words and 1 tags"):
        suite_of("tags", written(tmp_path, "sw.test.csv", "tokens,tags\n\"['a', 'b']\",['O']\n"))
    with pytest.raises(UserError, match=r"csv:2: no list of texts: .*'a' \.\.\."):
        suite_of("tags", written(tmp_path, "sw.test.csv", "tokens,tags\n['a' ...],['O' ...]\n"))


def test_annotations_beside_a_text_are_no_words(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ann:1: .* is an annotation of brat"):
        suite_of("tags", written(tmp_path, "sw.test.ann", "T1\tPER 0 3\tAna\nT2\tLOC 8 12\tRome\n"))


@pytest.mark.parametrize(
    ("setting", "name", "text", "said"),
    [
        ("classes", "a.csv", "row,toxic,comment_body\n1,1,a b\n2,0,b\n3,1,c d\n", "is the text"),
        ("classes", "a.jsonl", '{"stars": 5, "review_body": "a b"}\n', "is the text"),
        ("pairs", "a.jsonl", '{"verdict": "yes", "claim": "a", "evidence": "b"}\n', "is the text_a"),
        ("mt", "test.sw-en.jsonl", '{"fixed": "one", "raw": "moja"}\n', "is the text_a"),
    ],
)
def test_of_several_columns_that_are_left_each_is_asked(
    tmp_path: Path, setting: str, name: str, text: str, said: str
) -> None:
    with pytest.raises(UserError, match=f"which column {said}"):
        suite_of(setting, written(tmp_path, name, text), header="true")


TOPICS = "mada,maandishi\nmichezo,timu ilishinda\nsiasa,kura zilihesabiwa\nmichezo,mechi ya leo\n"


@pytest.mark.parametrize("columns", [{}, {"text": "2"}, {"text": "maandishi"}, {"label": "1"}])
def test_of_a_text_and_its_label_one_tells_the_other_under_any_names(
    tmp_path: Path, columns: dict[str, str]
) -> None:
    suite = suite_of("classes", written(tmp_path, "topics.csv", TOPICS), header="true", columns=columns)
    assert [(row.fields["text"], row.label) for row in rows_of(suite)] == [
        ("timu ilishinda", "michezo"),
        ("kura zilihesabiwa", "siasa"),
        ("mechi ya leo", "michezo"),
    ]


def test_a_row_is_not_taken_as_the_header_that_another_file_has(tmp_path: Path) -> None:
    rows = written(tmp_path, "rows.csv", TOPICS.partition("\n")[2])
    with pytest.raises(UserError, match="label 'michezo' stands on other lines too"):
        suite_of("classes", rows, header="true")


@pytest.mark.parametrize(
    "names",
    ["English,Swahili", "sentence_eng_Latn,sentence_swh_Latn", "en_text,sw_text", "English text,Swahili text",
     "target_text,source_text", "reference,source"],
)  # fmt: skip
def test_names_of_the_two_sides(tmp_path: Path, names: str) -> None:
    suite = suite_of("mt", written(tmp_path, "test.sw-en.csv", f"{names}\none,moja\ntwo,mbili\n"))
    assert [(row.fields["text"], row.label) for row in rows_of(suite, "sw-en")] == [
        ("moja", "one"),
        ("mbili", "two"),
    ]


def test_a_tab_may_stand_in_quotes(tmp_path: Path) -> None:
    suite = suite_of("classes", written(tmp_path, "a.tsv", 'text\tlabel\n"a\tb"\tx\nb\ty\n'))
    assert [row.fields["text"] for row in rows_of(suite)] == ["a\tb", "b"]


def test_one_class_may_stand_in_a_list(tmp_path: Path) -> None:
    lines = '{"text": "a", "label": ["x"]}\n{"text": "b", "label": ["y"]}\n'
    assert suite_of("classes", written(tmp_path, "a.jsonl", lines)).labels == ("x", "y")
    with pytest.raises(UserError, match="label is"):
        suite_of("classes", written(tmp_path, "a.jsonl", '{"text": "a", "label": ["x", "y"]}\n'))


def test_labels_that_look_the_same_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite_of("classes", written(tmp_path, "a.tsv", "text\tlabel\na\tth\u00e9\nb\tthe\u0301\n"))
    assert "the form of accents alone: the\u0301, th\u00e9" in capsys.readouterr().err


def test_a_last_column_without_spans_beside_one_with_them_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite_of("tags", written(tmp_path, "de.test.tsv", "1\tUlm\tB-LOC\tO\n2\tist\tO\tO\n"))
    assert "column 3 marks spans, and the last one has O alone" in capsys.readouterr().err


def test_relations_and_choices_beside_the_spans_of_label_studio(tmp_path: Path) -> None:
    span = {"id": "a", "type": "labels", "value": {"start": 0, "end": 5, "text": "Amina", "labels": ["PER"]}}
    others = [
        {"type": "relation", "from_id": "a", "to_id": "b"},
        {"type": "choices", "value": {"choices": ["x"]}},
    ]
    record = {"id": 1, "data": {"text": "Amina ate."}, "annotations": [{"result": [*others, span]}]}
    (row,) = rows_of(suite_of("tags", written(tmp_path, "a.jsonl", json.dumps(record))))
    assert (row.fields["tokens"], row.label) == (("Amina", "ate", "."), ("B-PER", "O", "O"))


def test_the_format_of_inception_is_refused_with_what_to_export(tmp_path: Path) -> None:
    text = (
        "#FORMAT=WebAnno TSV 3.3\n#T_SP=webanno.custom.Ner|value\n\n\n#Text=Amina ate\n1-1\t0-5\tAmina\tPER\n"
    )
    for kind in ("tags", "classes"):
        with pytest.raises(UserError, match="export the documents as CoNLL 2002"):
            suite_of(kind, written(tmp_path, "a.tsv", f"{text}1-2\t6-9\tate\t_\n"))
