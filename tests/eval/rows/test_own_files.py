"""Own labelled files as a suite: what their content and their names say, and the rows that are read."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from xling.core.errors import UserError
from xling.core.settings.config import from_dict
from xling.eval.kinds.base import Example
from xling.eval.rows import own
from xling.eval.rows.listing import ListConfig, listing, run_list
from xling.eval.rows.own_columns import Reading
from xling.eval.rows.own_files import KIND_OF, OwnFiles
from xling.eval.rows.own_formats import read_table
from xling.eval.rows.suite import SUITES, load

SENTENCE = [("Amina", "B-PER"), ("Mwangi", "I-PER"), ("arrived", "O"), ("Monday", "B-DATE")]
TAGS = ("B-PER", "I-PER", "O", "B-DATE")
CHUNKS = ("B-NP", "I-NP", "O", "B-NP")


def written(folder: Path, name: str, text: str, encoding: str = "utf-8") -> str:
    (folder / name).write_bytes(text.encode(encoding))
    return str(folder / name)


def suite_of(setting: str, *files: str, **settings: Any) -> own.OwnSuite:
    return own.define(from_dict(OwnFiles, {setting: list(files), **settings}), "en", "test")


def rows_of(suite: own.OwnSuite, lang: str = "en", split: str = "test") -> list[Example]:
    return load(suite, lang, split, Path())


CONLL = {
    "two columns, blanks": "\n".join(f"{w} {t}" for w, t in SENTENCE),
    "two columns, tabs, a byte-order mark": "\ufeff" + "\n".join(f"{w}\t{t}" for w, t in SENTENCE),
    "four columns with documents": "-DOCSTART- -X- O O\n\n"
    + "\n".join(f"{w} NN I-NP {t}" for w, t in SENTENCE),
    "a mark before the document": "\ufeff-DOCSTART- O\n\n" + "\n".join(f"{w} {t}" for w, t in SENTENCE),
    "ten columns": "\n".join("\t".join([w, *"12345678", t]) for w, t in SENTENCE),
    "numbered words": "\n".join(f"{i} {w} NN {t}" for i, (w, t) in enumerate(SENTENCE, 1)),
    "numbered words from 0, ten columns": "\n".join(
        "\t".join([str(i), w, *"abcdefg", t]) for i, (w, t) in enumerate(SENTENCE)
    ),
    "names of columns": "Word\tPOS\tNER\n" + "\n".join(f"{w}\tNN\t{t}" for w, t in SENTENCE),
    "comments, Windows ends": "# id 1\r\n" + "\r\n".join(f"{w} _ _ {t}" for w, t in SENTENCE) + "\r\n \r\n",
    "several blanks": "\n".join(f"{w}   {t} " for w, t in SENTENCE),
    "JSON lines": json.dumps({"words": [w for w, _ in SENTENCE], "ner_tags": [t for _, t in SENTENCE]}),
    "IOB1": "Amina I-PER\nMwangi I-PER\narrived O\nMonday I-DATE",
    "BIOES": "Amina B-PER\nMwangi E-PER\narrived O\nMonday S-DATE",
    "BILOU": "Amina B-PER\nMwangi L-PER\narrived O\nMonday U-DATE",
    "small letters": "Amina b-PER\nMwangi i-PER\narrived o\nMonday b-DATE",
    "IO": "Amina PER\nMwangi PER\narrived O\nMonday DATE",
    "the tag first": "\n".join(f"{t}\t{w}" for w, t in SENTENCE),
    "Universal NER": "# sent_id = 1\n"
    + "\n".join(f"{i}\t{w}\t{t}\t-\tkyle" for i, (w, t) in enumerate(SENTENCE, 1)),
    "a score behind the tag": "\n".join(f"{w} {t} .98" for w, t in SENTENCE),
    "a tab at the end": "\n".join(f"{w}\t{t}\t" for w, t in SENTENCE),
    "chunks before names": "\n".join(f"{w} NN {c} {t}" for c, (w, t) in zip(CHUNKS, SENTENCE, strict=True)),
    "commas": "\n".join(f'"{w}",{t}' for w, t in SENTENCE),
    "commas, a column of sentences": "Sentence #,Word,POS,Tag\n"
    + "\n".join(f"{'' if i else 'Sentence: 1'},{w},NN,{t}" for i, (w, t) in enumerate(SENTENCE)),
    "a sentence a line": " ".join(w for w, _ in SENTENCE) + "\t" + " ".join(t for _, t in SENTENCE),
}


@pytest.mark.parametrize("text", CONLL.values(), ids=CONLL.keys())
def test_tags_are_read_from_every_layout(tmp_path: Path, text: str) -> None:
    suite = suite_of("tags", written(tmp_path, "sw.test.conll", text + "\n"))
    assert rows_of(suite, "sw") == [Example("0", {"tokens": tuple(w for w, _ in SENTENCE)}, TAGS)]
    assert (suite.labels, suite.scheme) == (("DATE", "PER"), "IOB2")


def test_settings_take_names_of_languages_and_regions(tmp_path: Path) -> None:
    path = written(tmp_path, "x.tsv", "a\tx\nb\ty\nc\tx\n")
    for name in ("Swahili", "sw-TZ", "swh_Latn"):
        assert suite_of("classes", path, test={name: [path]}).languages == ("sw",)
    table = written(tmp_path, "pairs.tsv", "moja\tone\nmbili\ttwo\n")
    assert suite_of("mt", table, test={"Swahili-English": [table]}).languages == ("sw-en",)


def test_labels_that_no_training_row_has_are_refused(tmp_path: Path) -> None:
    train = written(tmp_path, "train.jsonl", '{"text": "a", "label": true}\n{"text": "b", "label": false}\n')
    test = written(tmp_path, "test.csv", "text,label\na,True\nb,False\n")
    with pytest.raises(
        UserError, match="no label of it is in the training rows: False, True; valid: false, true"
    ):
        suite_of("classes", test, train=[train])
    written(tmp_path, "train.jsonl", '{"text": "a", "label": 1.0}\n{"text": "b", "label": 0.0}\n')
    written(tmp_path, "test.csv", "sep=,\ntext,label\na,1\nb,0\n")
    assert suite_of("classes", test, train=[train]).labels == ("0", "1")


def test_training_rows_alone_cannot_be_scored(tmp_path: Path) -> None:
    path = written(tmp_path, "x.tsv", "text\tlabel\na\tx\n")
    with pytest.raises(UserError, match="training rows, and none to score; valid: test"):
        suite_of("classes", path, train=[path])


def test_labels_that_may_be_something_else_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["yes", "no", "-"], ["0.5", "2.25", "4.75"]
    for number, labels in enumerate(rows):
        lines = "".join(f"a{i}\tb{i}\t{label}\n" for i, label in enumerate(labels))
        suite_of("pairs", written(tmp_path, f"en.test{number}.tsv", "premise\thypothesis\tlabel\n" + lines))
    told = capsys.readouterr().err
    assert "1 rows have the label -: in SNLI" in told and "each is a class of its own" in told


def test_numbers_are_words_where_they_do_not_count_the_words(tmp_path: Path) -> None:
    suite = suite_of("tags", written(tmp_path, "sw.test.txt", "1 CD B-X\n2 CD O\n\n2 CD O\n3 CD B-X\n"))
    assert rows_of(suite, "sw")[1].fields["tokens"] == ("2", "3")


def test_a_column_of_documents_is_not_taken_for_words(tmp_path: Path) -> None:
    lines = "\n".join(f"bc/cctv/00 0 {i} {w} NN * {t}" for i, (w, t) in enumerate(SENTENCE))
    path = written(tmp_path, "sw.test.conll", lines + "\n")
    with pytest.raises(UserError, match=r"which column is the token\? .* 'bc/cctv/00'; .*columns.token="):
        suite_of("tags", path)
    assert rows_of(suite_of("tags", path, columns={"token": "4"}), "sw")[0].fields["tokens"][0] == "Amina"


def test_columns_of_dependency_trees_are_recognised_under_any_name(tmp_path: Path) -> None:
    tree = "1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n1\tde\tde\tADP\t_\t_\t2\tcase\t_\t_\n2\tle\tle\tDET\t_\t_\t0\troot\t_\t_\n"
    suite = suite_of("tags", written(tmp_path, "fr.test.conll", tree))
    assert rows_of(suite, "fr")[0].label == ("ADP", "DET")


def test_parts_of_speech_are_no_spans(tmp_path: Path) -> None:
    suite = suite_of("tags", written(tmp_path, "x.conllu", "# sent_id = a\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n"
                     "1\tde\t_\tADP\t_\t_\t_\t_\t_\t_\n2\tle\t_\tDET\t_\t_\t_\t_\t_\t_\n"))  # fmt: skip
    assert rows_of(suite) == [Example("0", {"tokens": ("de", "le")}, ("ADP", "DET"))]
    assert (suite.labels, suite.scheme, suite.metrics) == (("ADP", "DET"), "", ("tag_accuracy",))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("Amina B-PER\nMonday\n", ":2: 1 columns"),
        ("Amina B-PER\n\nNew York B-LOC\n", ":3: 3 columns"),
        ("Amina\tB-PER\n\tO\n", ":2: token is empty"),
        ("New York\tB-LOC\nis\tO\nMonday O\n", ":3: 1 columns"),
        ("Amina B-PER\nMonday DATE\n", ":2: tag 'DATE'"),
        ("Amina\nMonday\n", ":1: 1 columns"),
        ("", "has no rows"),
    ],
)
def test_a_damaged_line_of_words_is_named(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(UserError) as error:
        suite_of("tags", written(tmp_path, "test.conll", text))
    assert place in str(error.value)


def test_a_no_break_space_is_part_of_a_word(tmp_path: Path) -> None:
    suite = suite_of("tags", written(tmp_path, "fr.test.bio", "10\u00a0000 B-NUM\neuros O\n"))
    assert rows_of(suite, "fr")[0].fields["tokens"] == ("10\u00a0000", "euros")


TABLES = {
    "TSV without a header": "good day, sir\tpos\nbad\tneg\nfine\tpos\n",
    "TSV, label first": "pos\tgood day, sir\nneg\tbad\npos\tfine\n",
    "TSV with a header and a mark": "\ufefflabel\ttext\npos\tgood day, sir\nneg\tbad\npos\tfine\n",
    "CSV with quotes": 'id,Tweet,Topic\n1,"good day, sir",pos\n2,bad,neg\n3,fine,pos\n',
    "semicolons": "text;sentiment\ngood day, sir;pos\nbad;neg\nfine;pos\n",
    "bars": "good day, sir|pos\nbad|neg\nfine|pos\n",
    "JSON lines": '{"id": 7, "sentence": "good day, sir", "category": "pos"}\n\n'
    '{"id": 8, "sentence": "bad", "category": "neg"}\n{"id": 9, "sentence": "fine", "category": "pos"}\n',
    "our own rows": "".join(
        json.dumps({"id": str(i), "fields": {"text": t}, "label": c}) + "\n"
        for i, (t, c) in enumerate([("good day, sir", "pos"), ("bad", "neg"), ("fine", "pos")])
    ),
    "fastText": "__label__pos good day, sir\n__label__neg bad\n__label__pos fine\n",
}


@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES.keys())
def test_classes_are_read_from_every_layout(tmp_path: Path, text: str) -> None:
    suite = suite_of("classes", written(tmp_path, "test.txt", text))
    assert [(row.fields["text"], row.label) for row in rows_of(suite)] == [
        ("good day, sir", "pos"),
        ("bad", "neg"),
        ("fine", "pos"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "settings", "place"),
    [
        ("x.tsv", "a\tpos\nb\tneg\tmore\nc\tpos\n", {}, ":2: 3 columns"),
        ("x.csv", "text,label\na,pos\nb, c,neg\nd,pos\n", {}, ":3: 3 columns"),
        ("x.csv", 'text,label\n"a,pos\nb,neg\n', {}, ":2: "),
        ("x.tsv", "text\tlabel\n\tpos\n", {}, ":2: text is empty"),
        ("x.tsv", "a\tpos\nb\tneg\n", {}, "may both be the label"),
        ("x.tsv", "one\ttopic_name\na b\tpos\nc d\tpos\n", {}, "header=true or header=false"),
        ("x.tsv", "text\tlabel\n", {}, "no rows below its header"),
        ("x.tsv", "text\tclass\na\tb\n", {"columns": {"label": "topic"}}, "columns.label=topic"),
        ("x.tsv", "a\tb\nc\tb\n", {"columns": {"label": "3"}}, "1 to 2"),
        ("x.tsv", "a\tb\nc\tb\n", {"columns": {"tag": "2"}}, "columns.tag"),
        ("x.txt", "a line\nanother\n", {}, "no delimiter"),
        ("x.jsonl", '{"text": "a", "label": "x"}\n{"text": "b"}\n', {}, ":2: no 'label'"),
        ("x.jsonl", '{"text": " ", "label": "x"}\n', {}, ":1: text is empty"),
        ("x.jsonl", '{"text": "a", "label": null}\n', {}, ":1: label is None"),
        ("x.jsonl", '{"text": "a", "label": "x"}\n{"text": \n', {}, ":2: not JSON"),
        ("x.json", '[{"text": "a", "label": "x"}]\n', {}, "jq"),
        ("x.tsv", "a\tpos\nb\tnge\nc\tpos\nd\tneg\n", {"labels": ["pos", "neg"]}, ":2: unknown label 'nge'"),
    ],
)
def test_what_cannot_be_read_names_file_and_line(
    tmp_path: Path, name: str, text: str, settings: dict[str, Any], place: str
) -> None:
    with pytest.raises(UserError) as error:
        suite_of("classes", written(tmp_path, name, text), **settings)
    assert place in str(error.value)
    assert str(tmp_path / name) in str(error.value) or "columns.tag" in place


def test_numbers_are_labels_as_they_are_written(tmp_path: Path) -> None:
    suite = suite_of("classes", written(tmp_path, "t.tsv", "a\t01\nb\t1\nc\t01\n"))
    assert suite.labels == ("01", "1")
    suite = suite_of(
        "classes", written(tmp_path, "t.jsonl", '{"text": "a", "label": 1}\n{"text": "b", "label": true}\n')
    )
    assert suite.labels == ("1", "true")


def test_a_cell_in_quotes_may_have_several_lines(tmp_path: Path) -> None:
    suite = suite_of(
        "classes", written(tmp_path, "t.csv", 'text,label\n"a\n\nb",x\nc,x\n,y\n'.replace(",y", "d,y"))
    )
    assert [row.fields["text"] for row in rows_of(suite)] == ["a\n\nb", "c", "d"]


@pytest.mark.parametrize(
    ("text", "texts", "labels"),
    [
        ("y\tgood\nn\tbad\ny\tfine\n", ["good", "bad", "fine"], ["y", "n", "y"]),
        ("a, 1|x\nb, 2|y\nc, 3|x\n", ["a, 1", "b, 2", "c, 3"], ["x", "y", "x"]),
        ('"a; 1",x\n"b; 2",y\n"c; 3",x\n', ["a; 1", "b; 2", "c; 3"], ["x", "y", "x"]),
        ('x,"a;1"\ny,"b;2"\nx,"c;3"\n', ["a;1", "b;2", "c;3"], ["x", "y", "x"]),
        ("text;label\n1,5 a;x\n2,5 b;y\n", ["1,5 a", "2,5 b"], ["x", "y"]),
    ],
)
def test_names_and_delimiters_are_not_found_in_what_a_text_says(
    tmp_path: Path, text: str, texts: list[str], labels: list[str]
) -> None:
    rows = rows_of(suite_of("classes", written(tmp_path, "t.txt", text)))
    assert [row.fields["text"] for row in rows] == texts
    assert [row.label for row in rows] == labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,1|x\nb,2|x\n", "commas and bars both split all lines"),
        ("text\tlabel\na\tx\ntext\tlabel\nb\ty\n", "t.txt:3: the names of the columns again"),
    ],
)
def test_what_may_be_read_in_two_ways_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        suite_of("classes", written(tmp_path, "t.txt", text))


def test_header_and_columns_may_be_given(tmp_path: Path) -> None:
    path = written(tmp_path, "t.tsv", "one\tname\tx\na b\tpos\ty\nc d\tpos\tz\n")
    columns = {"text": "1", "label": "2"}
    assert len(rows_of(suite_of("classes", path, columns=columns, header="true"))) == 2
    assert len(rows_of(suite_of("classes", path, columns=columns, header="false"))) == 3
    assert [
        r.fields["text"] for r in rows_of(suite_of("classes", path, columns={"text": "x", "label": "name"}))
    ] == ["y", "z"]


def test_two_texts_are_a_table_or_two_files(tmp_path: Path) -> None:
    sides = [
        written(tmp_path, "flores.test.sw", "moja\nmbili\n"),
        written(tmp_path, "flores.test.en", "one\ntwo\n"),
    ]
    pairs = [{"en": "one", "swh": "moja"}, {"en": "two", "swh": "mbili"}]
    translations = "".join(json.dumps({"translation": pair}) + "\n" for pair in pairs)
    tables = [
        sides,
        [written(tmp_path, "a.sw-en.tsv", "en\tsw\none\tmoja\ntwo\tmbili\n")],
        [written(tmp_path, "b_test.sw-en.tsv", "moja\tone\nmbili\ttwo\n")],
        [written(tmp_path, "c.sw-en.jsonl", translations)],
    ]  # fmt: skip
    for files in tables:
        suite = suite_of("retrieval", *files)
        rows = [({"text_a": "moja", "text_b": "one"}, 0), ({"text_a": "mbili", "text_b": "two"}, 1)]
        assert [(row.fields, row.label) for row in rows_of(suite, "sw-en")] == rows
        suite = suite_of("mt", *files)
        assert [(row.fields["text"], row.label) for row in rows_of(suite, "sw-en")] == [
            ("moja", "one"),
            ("mbili", "two"),
        ]
    with pytest.raises(UserError, match=r"flores.test.en:2: 1 lines"):
        suite_of("mt", sides[0], written(tmp_path, "flores.test.en", "one\n"))


def test_names_say_language_and_split_and_settings_say_more(tmp_path: Path) -> None:
    text = "a\tx\nb\ty\nc\tx\n"
    names = [
        "sw.train.tsv",
        "topics_test_hau.tsv",
        "my_topics.tsv",
        "news_sw.tsv",
        "valid-eng_Latn.tsv",
        "other.tsv",
        "swahili_news_dev.tsv",
        "zho_Hant_test.tsv",
        "yo-NG.test.tsv",
    ]
    files = [written(tmp_path, name, text) for name in names]
    suite = suite_of("classes", *files, test={"xh": [files[5]]})
    assert {key: [path.name for path in paths] for key, paths in suite.own.items()} == {
        ("xh", "test"): ["other.tsv"],
        ("sw", "train"): ["sw.train.tsv"],
        ("ha", "test"): ["topics_test_hau.tsv"],
        ("en", "test"): ["my_topics.tsv"],
        ("sw", "test"): ["news_sw.tsv"],
        ("en", "dev"): ["valid-eng_Latn.tsv"],
        ("sw", "dev"): ["swahili_news_dev.tsv"],
        ("zh_Hant", "test"): ["zho_Hant_test.tsv"],
        ("yo", "test"): ["yo-NG.test.tsv"],
    }
    with pytest.raises(UserError, match="one language in the name"):
        suite_of("classes", written(tmp_path, "sw.de.tsv", text))


def test_a_file_that_is_replaced_under_its_old_time_is_read_again(tmp_path: Path) -> None:
    path = Path(written(tmp_path, "en.test.tsv", "a\tx\nb\ty\nc\tx\n"))
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    assert suite_of("classes", str(path)).labels == ("x", "y")
    path.write_text("a\tx\nb\tz\nc\tx\n")
    os.utime(path, ns=times)
    assert suite_of("classes", str(path)).labels == ("x", "z")


def test_two_files_of_one_split_are_joined(tmp_path: Path) -> None:
    files = [written(tmp_path, f"part{i}.sw.tsv", f"a{i}\tx\nb{i}\ty\nc{i}\tx\n") for i in (1, 2)]
    assert [(row.id, row.fields["text"]) for row in rows_of(suite_of("classes", *files), "sw")][3:] == [
        ("3", "a2"), ("4", "b2"), ("5", "c2")
    ]  # fmt: skip


def test_a_yaml_file_beside_the_files_says_the_same(tmp_path: Path) -> None:
    written(tmp_path, "a.txt", "x;one\ny;two\nx;three\n")
    written(tmp_path, "b.txt", "x;four\ny;five\nx;six\n")
    settings = {"train": "a.txt", "test": {"sw": "b.txt"}, "columns": {"label": "1"}, "name": "topics"}
    path = written(tmp_path, "topics.yaml", yaml.safe_dump(settings))
    cfg = from_dict(Settings, {"classes": path})
    assert own.with_own_suite(cfg, "suite", "test").suite == "topics"
    suite = own.OWN_SUITES.pop("topics")
    assert sorted(suite.own) == [("en", "train"), ("sw", "test")]  # type: ignore[attr-defined]
    assert [row.label for row in load(suite, "sw", "test", Path())] == ["x", "y", "x"]


@dataclass(frozen=True, kw_only=True)
class Settings(OwnFiles):
    """A command with a suite."""

    suite: str = ""
    source: str = "en"


def test_every_kind_with_a_setting_is_read(tmp_path: Path) -> None:
    assert sorted(KIND_OF) == ["classes", "mt", "pairs", "retrieval", "tags"]
    with pytest.raises(UserError, match="one of classes=FILES"):
        own.define(from_dict(OwnFiles, {"train": "x"}), "en", "test")
    with pytest.raises(UserError, match="is a published suite"):
        suite_of("classes", written(tmp_path, "t.tsv", "a\tx\nb\ty\nc\tx\n"), name="xnli")


def test_a_header_in_any_language_is_known_by_a_label_that_occurs_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"maandishi ya habari {n}\t{('siasa', 'michezo')[n % 2]}\n" for n in range(30))
    suite = suite_of("classes", written(tmp_path, "sw.test.tsv", "maandishi\tmada\n" + rows))
    assert len(rows_of(suite, "sw")) == 30 and suite.labels == ("michezo", "siasa")
    assert "text is column 1 'maandishi', label is column 2 'mada'" in capsys.readouterr().err
    for text in (
        "maandishi\tmada\n" + "habari\tsiasa\nmechi\tmichezo\nkura\tsiasa\nbao\tmichezo\n",  # too few rows
        "maandishi\tmada\n"
        + rows
        + "mvua kubwa ilinyesha\thali ya hewa\n",  # a second label that occurs once
        "mvua kubwa ilinyesha jana\tmada\n" + rows,  # a text
    ):
        with pytest.raises(UserError, match="header=true or header=false"):
            suite_of("classes", written(tmp_path, "sw.test.tsv", text))


def test_a_file_without_a_language_in_its_name_is_announced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "a\tx\nb\ty\nc\tx\n"
    suite_of("classes", path := written(tmp_path, "topics.tsv", rows))
    message = f"{path}: no language in its name, so it is read as English: test.LANG=FILE tells another"
    assert message in capsys.readouterr().err
    own.define(from_dict(OwnFiles, {"classes": [path]}), "en", "train")
    assert message.replace("test.LANG", "train.LANG") in capsys.readouterr().err
    train = written(tmp_path, "topics.train.tsv", rows)
    own.define(
        from_dict(OwnFiles, {"classes": [path], "test": {"sw": [path]}, "train": [train]}), "en", "test"
    )
    assert (
        f"{train}: no language in its name, so it is read as English: train.LANG=" in capsys.readouterr().err
    )
    suite_of("classes", written(tmp_path, "sw.test.tsv", rows))
    own.define(from_dict(OwnFiles, {"classes": [path], "test": {"sw": [path]}}), "en", "test")
    assert "no language" not in capsys.readouterr().err


def test_the_digest_of_rows_depends_on_how_they_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, "t.tsv", "a\tx\tu\nb\ty\tu\nc\tx\tv\n")
    digests = {suite_of("classes", path, columns={"text": "1", "label": label}).reading for label in "23"}
    assert len(digests) == 2


def test_what_was_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = written(tmp_path, "train.tsv", "a\tx\nb\ty\nc\tx\n")
    suite_of("classes", written(tmp_path, "sw.test.csv", "id,text,label\n1,a,X\n2,z,y\n"), train=train)
    said = capsys.readouterr().err
    assert "test rows in sw (Swahili): 2 rows; a table by commas with a header" in said
    assert "label is column 3 'label'; not read: id" in said
    assert "3 labels: X (1), x (2), y (2)" in said
    assert "not in the training rows, so never answered: X" in said
    assert "labels that differ by case, blanks or the form of accents alone: X, x" in said
    assert "1 of 2 test rows in sw stand in the training rows, too" in said
    dev = written(tmp_path, "dev.tsv", "d\tx\nc\ty\ne\tx\n")
    suite_of("classes", written(tmp_path, "sw.test.tsv", "d\tx\nz\tx\n"), train=train, dev=dev)
    said = capsys.readouterr().err
    assert "1 of 3 dev rows in en stand in the training rows, too" in said
    assert "1 of 2 test rows in sw stand in the dev rows, too" in said
    assert "test rows in sw stand in the training rows" not in said


def test_the_list_shows_what_an_evaluation_can_read(tmp_path: Path) -> None:
    rows = tmp_path / "rows/panx"
    rows.mkdir(parents=True)
    row = {"id": "1", "fields": {"tokens": ["a"]}, "label": ["O"]}
    (rows / "swh.test.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "ner/panx").mkdir(parents=True)
    (tmp_path / "ner/panx/yo.dev.tsv").write_text("a\tO\n")
    answer = run_list(ListConfig(which="mine", data=tmp_path))
    assert [fact["suite"] for fact in answer.data] == ["panx"]
    assert answer.data[0]["at_hand"]["test"] == ["sw"]
    assert "another file than the recorded one: dev: yo" in answer
    assert load(SUITES["panx"], "sw", "test", tmp_path) == [Example("1", {"tokens": ("a",)}, ("O",))]
    with pytest.raises(UserError, match=r"tags=\S+yo.dev.tsv test.yo=\S+yo.dev.tsv"):
        load(SUITES["panx"], "yo", "dev", tmp_path)
    assert run_list(ListConfig(which="mine", data=tmp_path / "ner")).startswith("no suite has rows")
    with pytest.raises(UserError, match="data"):
        run_list(ListConfig(which="mine", data=tmp_path / "nowhere"))


def test_the_list_shows_names_of_files_as_they_are(tmp_path: Path) -> None:
    assert "for example: conll/eng.train  conll/eng.testa  conll/eng.testb" in listing()
    (tmp_path / "conll").mkdir()
    (tmp_path / "conll/eng.testb").write_text("Amina I-PER\n")
    assert "present: train: none; dev: none; test: en\n" in listing(tmp_path, ["conll"])


@pytest.mark.parametrize(
    ("text", "texts", "how"),
    [
        (
            'text\n"hello, you"\n"bye ""x"""\n',
            ["hello, you", 'bye "x"'],
            "with a header, text is column 1 'text'",
        ),
        ("hello\nbye\n", ["hello", "bye"], "without a header, text is column 1"),
    ],
)
def test_a_table_of_one_column(tmp_path: Path, text: str, texts: list[str], how: str) -> None:
    table = read_table([Path(written(tmp_path, "new.csv", text))], Reading(("text",)))
    assert [row.cells["text"] for row in table.rows] == texts
    assert table.facts.endswith(how)


def test_words_in_quotes_of_csv_are_read_without_them_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, "en.test.tsv", '""""\tO\nAmina\tB-PER\n\n"\tO\n"""Simba"""\tB-PER\n')
    table = read_table([Path(path)], Reading(("token", "tag")), ())
    assert [row.cells["token"] for row in table.rows] == [('"', "Amina"), ('"', '"Simba"')]
    assert "2 words in quotes, as in CSV, read without them" in table.facts
    literal = written(tmp_path, "sw.test.tsv", '"\tO\n"Amina\tB-PER\n""""\tO\n')
    table = read_table([Path(literal)], Reading(("token", "tag")), ())
    assert table.rows[0].cells["token"] == ('"', '"Amina', '""""')
