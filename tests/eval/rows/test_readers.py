"""Readers of the file formats, and what they say about files that are wrong."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path

import pytest
from eval_helpers import write_ner, write_nli

from xling.core.errors import UserError
from xling.core.output.manifest import sha256
from xling.eval.rows import readers
from xling.eval.rows.listing import ListConfig, listing, run_list
from xling.eval.rows.suite import SuiteFile, data_folder, languages_at, load, scored_split, suites


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_pairs_and_tags(world: Path) -> None:
    rows = load(suites()["toy_xnli"], "sw", "dev", world)
    assert len(rows) == 6
    assert rows[1].id == "1"
    assert rows[1].fields == {"text_a": "sw A dog sleeps.", "text_b": "A dog is black."}
    assert rows[1].label == "neutral"
    (sentence, *_) = load(suites()["toy_ner"], "sw", "dev", world)
    assert sentence.fields["tokens"] == ("Amina", "went", "to", "New", "York")
    assert sentence.label == ("B-PER", "O", "O", "B-LOC", "I-LOC")
    assert languages_at(suites()["toy_ner"], "test", world) == ["de", "en", "sw"]


def test_gzip_reads_like_plain(tmp_path: Path) -> None:
    write_ner(tmp_path / "ner/en.test.tsv", 2)
    plain = load(suites()["toy_ner"], "en", "test", tmp_path)
    packed = tmp_path / "ner/fr.test.tsv.gz"
    packed.write_bytes(gzip.compress((tmp_path / "ner/en.test.tsv").read_bytes()))
    assert load(suites()["toy_ner"], "fr", "test", tmp_path) == plain


def test_last_sentence_needs_no_blank_line_and_crlf_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ner/en.test.tsv"
    path.parent.mkdir()
    path.write_bytes(b"a\tO\r\n\r\nb\tB-PER\r\nc\tI-PER")
    rows = load(suites()["toy_ner"], "en", "test", tmp_path)
    assert [r.fields["tokens"] for r in rows] == [("a",), ("b", "c")]


def test_conll_turns_iob1_into_iob2(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\nGerman JJ I-NP I-MISC\nUS X I-NP B-MISC\n\n"
    put(tmp_path / "conll/eng.testb", text)
    (row,) = load(suites()["conll"], "en", "test", tmp_path)
    assert row.label == ("B-ORG", "O", "B-MISC", "B-MISC")
    assert readers.iob2(["I-PER", "I-PER", "I-LOC", "O", "I-LOC", "B-LOC", "I-LOC"]) == (
        "B-PER",
        "I-PER",
        "B-LOC",
        "O",
        "B-LOC",
        "B-LOC",
        "I-LOC",
    )


def test_xsid_with_and_without_ids(tmp_path: Path) -> None:
    body = "1\tRegnet\tweather/find\tB-weather/attribute\n2\tes\tweather/find\tO\n\n"
    put(tmp_path / "xsid/de.valid.conll", "# id = 7\n# text = Regnet es\n# intent = weather/find\n" + body)
    put(tmp_path / "xsid/en.valid.conll", "# text = x\n# intent = weather/find\n# slots: 1\n" + body)
    suite = dataclasses.replace(suites()["xsid"], files=())
    (row,) = load(suite, "de", "dev", tmp_path)
    assert (row.id, row.label) == ("7", ("weather/find", ("B-weather/attribute", "O")))
    (row,) = load(suite, "en", "dev", tmp_path)
    assert row.id == "1"


def test_squad_and_its_folds(tmp_path: Path) -> None:
    paragraphs = [
        {
            "context": f"The answer is {i}.",
            "qas": [{"id": f"q{i}", "question": "Which?", "answers": [{"text": str(i), "answer_start": 14}]}],
        }
        for i in range(40)
    ]
    put(
        tmp_path / "xquad/xquad.xx.json", json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]})
    )
    rows = load(suites()["xquad"], "xx", "test", tmp_path)
    assert rows[3].label == (("3", 14),)
    folds = {s: load(suites()["xquad_folds"], "xx", s, tmp_path) for s in ("train", "dev", "test")}
    ids = [row.id for rows in folds.values() for row in rows]
    assert sorted(ids) == sorted(row.id for row in rows)
    assert len(folds["train"]) > len(folds["test"]) > len(folds["dev"])


def test_pairs_with_a_pivot(tmp_path: Path) -> None:
    for lang, word in (("en", "one"), ("fr", "un"), ("sw", "moja")):
        put(tmp_path / f"ntrex/ntrex.{ {'en': 'eng', 'fr': 'fra', 'sw': 'swa'}[lang] }.txt", f"{word}\nx\n")
    suite = dataclasses.replace(suites()["ntrex"], files=())
    assert load(suite, "fr", "test", tmp_path)[0].fields == {"text_a": "un", "text_b": "one"}
    assert load(suite, "fr-sw", "test", tmp_path)[0].fields == {"text_a": "un", "text_b": "moja"}
    assert languages_at(suite, "test", tmp_path) == ["fr", "sw"]


def test_a_recorded_file_is_one_language_whatever_it_is_called(tmp_path: Path) -> None:
    for name in ("eu_bdt", "fo_new"):
        put(tmp_path / f"ud/{name}.dev.tsv", "a\tNOUN\n\n")
    assert languages_at(suites()["udpos"], "dev", tmp_path) == ["eu", "fo_new"]


def test_other_formats(tmp_path: Path) -> None:
    put(tmp_path / "mldoc/de.test", "ECAT\tPreise steigen\nGCAT\tWahl\n")
    assert [r.label for r in load(suites()["mldoc"], "de", "test", tmp_path)] == ["ECAT", "GCAT"]
    put(tmp_path / "bli/en-sw.test2k.tsv", "dog\tmbwa\ndog\tjibwa\ncat\tpaka\n")
    assert load(suites()["bli"], "en-sw", "test", tmp_path)[0].label == ("mbwa", "jibwa")
    put(tmp_path / "mt/en-sw.test.en", "Hello.\n")
    put(tmp_path / "mt/en-sw.test.sw", "Habari.\n")
    (row,) = load(suites()["mt"], "en-sw", "test", tmp_path)
    assert (row.fields["text"], row.label) == ("Hello.", "Habari.")
    for part, text in (("e", "evidence"), ("a", "answer"), ("q", "question ?")):
        put(tmp_path / f"xqg/test.{part}.zh.lc", text + "\n")
    (row,) = load(suites()["xqg"], "zh", "test", tmp_path)
    assert (dict(row.fields), row.label) == ({"text": "evidence", "answer": "answer"}, "question ?")
    put(tmp_path / "bucc2018/fr-en.training.fr", "fr-1\tun\nfr-2\tdeux\n")
    put(tmp_path / "bucc2018/fr-en.training.en", "en-1\ttwo\n")
    put(tmp_path / "bucc2018/fr-en.training.gold", "fr-2\ten-1\n")
    rows = load(suites()["bucc"], "fr", "train", tmp_path)
    assert [(r.id, r.fields["side"], r.label) for r in rows] == [
        ("fr-1", "src", ()),
        ("fr-2", "src", ("en-1",)),
        ("en-1", "tgt", ()),
    ]


def test_reviews_of_three_domains(tmp_path: Path) -> None:
    item = (
        "<item><rating>{}</rating><title>no</title><summary>{}</summary><text>gut\n &amp; neu</text></item>"
    )
    for domain, rating in (("books", "5.0"), ("dvd", "1.0"), ("music", "4")):
        text = f"<items>{item.format(rating, domain)}</items>"
        put(tmp_path / f"cls-acl10-unprocessed/jp/{domain}/test.review", text)
    rows = load(suites()["cls"], "ja", "test", tmp_path)
    assert [(row.id, row.fields["text"], row.label) for row in rows] == [
        ("books/0", "books gut & neu", "positive"),
        ("dvd/0", "dvd gut & neu", "negative"),
        ("music/0", "music gut & neu", "positive"),
    ]
    put(tmp_path / "cls-acl10-unprocessed/jp/dvd/test.review", f"<items>{item.format('3.0', 'x')}</items>")
    with pytest.raises(UserError, match=r"review 1 has the rating '3\.0'"):
        load(suites()["cls"], "ja", "test", tmp_path)
    put(tmp_path / "cls-acl10-unprocessed/jp/dvd/test.review", "<items><item>")
    with pytest.raises(UserError, match="not XML"):
        load(suites()["cls"], "ja", "test", tmp_path)


def test_scored_split_is_test_and_dev_where_there_is_none(world: Path) -> None:
    assert scored_split(suites()["toy_ner"], "sw", world) == "test"
    (world / "ner/sw.test.tsv").unlink()
    assert scored_split(suites()["toy_ner"], "sw", world) == "dev"
    with pytest.raises(UserError, match="no test rows in 'xx'"):
        scored_split(suites()["toy_ner"], "xx", world)


def test_the_listing_says_what_is_at_hand(world: Path) -> None:
    text = listing(world)
    assert "toy_ner: tag, span_f1" in text
    assert "present: train: de en sw; dev: de en sw; test: de en sw" in text
    assert all(f"{name}: " in text for name in suites())


@pytest.mark.parametrize(
    ("suite", "file", "text", "message"),
    [
        (
            "toy_xnli",
            "nli/sw.test.tsv",
            "premise\tlabel\na\tneutral\n",
            "sw.test.tsv:1: no column 'hypothesis'",
        ),
        (
            "toy_xnli",
            "nli/sw.test.tsv",
            "premise\thypothesis\tlabel\na\tb\tneutral\na\tb\n",
            "sw.test.tsv:3: 2 columns; valid: 3",
        ),
        (
            "toy_xnli",
            "nli/sw.test.tsv",
            "premise\thypothesis\tlabel\na\tb\tnetural\n",
            "sw.test.tsv:2: unknown label 'netural'.*did you mean 'neutral'",
        ),
        ("toy_ner", "ner/sw.test.tsv", "a\tO\n\nb\tB-PERS\n", "sw.test.tsv:3: unknown label 'PERS'"),
        ("toy_ner", "ner/sw.test.tsv", "a\tO\nb\n", "sw.test.tsv:2: 'b' has 1 columns"),
        ("toy_ner", "ner/sw.test.tsv", "", "sw.test.tsv has no rows"),
        (
            "sib200",
            "sib200/xx.test.tsv",
            "index_id\tcategory\ttext\n5\tsports\tx\n5\tsports\ty\n",
            "xx.test.tsv:3: id '5' is there already in line 2",
        ),
        ("xsid", "xsid/xx.test.conll", "1\ta\tb\tO\n\n", "xx.test.conll:1: utterance without an intent"),
        ("xcopa", "xcopa/test.xx.jsonl", '{"idx": 1}\n', "test.xx.jsonl:1: no key 'premise'"),
        ("xcopa", "xcopa/test.xx.jsonl", "{\n", "test.xx.jsonl:1: not JSON"),
        (
            "xcopa",
            "xcopa/test.xx.jsonl",
            "[" * 100_000 + "\n",
            "test.xx.jsonl:1: the JSON is nested too deeply",
        ),
        ("bli", "bli/xx.test2k.tsv", "one two\n", "xx.test2k.tsv:1: 'one two'"),
        (
            "xquad",
            "xquad/xquad.xx.json",
            '{"data": [{"paragraphs": [{"context": "abc", "qas": [\n{"id": "q", "question": "?", "answers": []}]}]}]}',
            "xquad.xx.json:2: question q has no answer; valid: SQuAD 1.1",
        ),
        (
            "xquad",
            "xquad/xquad.xx.json",
            '{"version": "1.1"}',
            "xquad.xx.json: no key 'data'; valid: SQuAD 1.1",
        ),
        ("xquad", "xquad/xquad.xx.json", '{"data": [{}]}', "xquad.xx.json: no key 'paragraphs'"),
        (
            "xquad",
            "xquad/xquad.xx.json",
            '{"data": [{"paragraphs": [3]}]}',
            "xquad.xx.json does not have the layout of SQuAD: .*SQuAD 1.1",
        ),
        (
            "xquad",
            "xquad/xquad.xx.json",
            "[]",
            "xquad.xx.json does not have the layout of SQuAD: .*valid: SQuAD 1.1",
        ),
        ("xcopa", "xcopa/test.xx.jsonl", "[1]\n", "test.xx.jsonl:1: a value has the wrong type"),
        (
            "xquad",
            "xquad/xquad.xx.json",
            '{"data": [{"paragraphs": [\n{"context": "abc", "qas": [\n{"id": "q", "question": "?", '
            '"answers": [{"text": "b", "answer_start": 0}]}]}]}]}',
            "xquad.xx.json:3: question q: answer 'b' is not at character 0",
        ),
    ],
)
def test_bad_files_are_named_with_their_line(
    tmp_path: Path, suite: str, file: str, text: str, message: str
) -> None:
    put(tmp_path / file, text)
    lang = "sw" if "sw" in file else "xx"
    with pytest.raises(UserError, match=message):
        load(suites()[suite], lang, "test", tmp_path)


def test_bytes_that_are_not_utf8_are_named_with_their_encoding(tmp_path: Path) -> None:
    path = tmp_path / "ner/sw.test.tsv"
    path.parent.mkdir()
    path.write_bytes(b"a\tO\n" + "é\tO\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"sw\.test\.tsv line 2: .* is not UTF-8"):
        load(suites()["toy_ner"], "sw", "test", tmp_path)


def test_parallel_files_of_different_length(tmp_path: Path) -> None:
    put(tmp_path / "tatoeba/xxx-eng.xxx", "a\nb\n")
    put(tmp_path / "tatoeba/xxx-eng.eng", "a\n")
    with pytest.raises(UserError, match=r"xxx-eng\.eng:2: .* has 1 lines and xxx-eng\.xxx 2"):
        load(suites()["tatoeba"], "xxx", "test", tmp_path)


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    write_nli(tmp_path / "nli/xx.test.tsv")
    file = SuiteFile("xx", "test", "nli/xx.test.tsv", 3, sha256(tmp_path / "nli/xx.test.tsv"))
    suite = dataclasses.replace(suites()["toy_xnli"], files=(file,))
    assert len(load(suite, "xx", "test", tmp_path)) == 3
    write_nli(tmp_path / "nli/xx.test.tsv", 2)
    with pytest.raises(
        UserError, match=r"nli/xx\.test\.tsv has SHA-256 .* another file than the one recorded"
    ):
        load(suite, "xx", "test", tmp_path)
    official = dataclasses.replace(file, official=sha256(tmp_path / "nli/xx.test.tsv"))
    suite = dataclasses.replace(suite, files=(official,))
    assert len(load(suite, "xx", "test", tmp_path)) == 6, "as its authors wrote it, under the same name"


def test_missing_language_split_and_folder(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = suites()["toy_ner"]
    with pytest.raises(
        UserError, match=r"no test rows in 'xx': no file .*ner/xx\.test\.tsv.*choose among: de en sw"
    ):
        load(suite, "xx", "test", world)
    with pytest.raises(UserError, match="unknown split of toy_ner 'tests'"):
        load(suite, "xx", "tests", world)
    monkeypatch.delenv("XLING_DATA", raising=False)
    with pytest.raises(UserError, match="no data folder is given"):
        data_folder()
    with pytest.raises(UserError, match="does not exist"):
        data_folder(world / "nowhere")
    monkeypatch.setenv("XLING_DATA", str(world))
    assert data_folder() == world


def test_the_list_says_what_is_at_hand(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLING_DATA", raising=False)
    assert "    present:" not in run_list(ListConfig())
    assert "present: train: de en sw; dev: de en sw" in run_list(ListConfig(world))
    monkeypatch.setenv("XLING_DATA", str(world))
    told = run_list(ListConfig())
    assert "present: train: de en sw; dev: de en sw" in told
    (facts,) = [each for each in told.data if each["suite"] == "toy_ner"]
    assert facts["at_hand"]["test"] == ["de", "en", "sw"]
    with pytest.raises(UserError, match=r"data folder .*nowhere does not exist"):
        run_list(ListConfig(world / "nowhere"))


TEXT_ROW = {"id": "1", "fields": {"text": "a"}, "label": "sports"}
GOOD_ROW = {"id": "1", "fields": {"text_a": "a", "text_b": "b"}, "label": "neutral"}


@pytest.mark.parametrize(
    ("suite", "row", "message"),
    [
        ("toy_xnli", GOOD_ROW | {"id": 1}, r"id 1; valid: a text"),
        ("toy_xnli", GOOD_ROW | {"fields": {"text": "a"}}, r"field 'text_a' is not there; valid: a text"),
        (
            "toy_xnli",
            GOOD_ROW | {"fields": {"text_a": "a", "text_b": 2}},
            r"field 'text_b' is 2; valid: a text",
        ),
        ("toy_xnli", GOOD_ROW | {"label": ["neutral"]}, r"label \('neutral',\); valid: class name"),
        ("toy_xnli", GOOD_ROW | {"label": "nothing"}, r"unknown label 'nothing'"),
        (
            "toy_ner",
            {"id": "1", "fields": {"tokens": "a b"}, "label": ["O"]},
            r"field 'tokens' is 'a b'; valid: a list",
        ),
        (
            "toy_ner",
            {"id": "1", "fields": {"tokens": ["a", "b"]}, "label": ["O"]},
            r"label \('O',\); valid: .*one per",
        ),
        (
            "xquad",
            {"id": "1", "fields": {"context": "a", "question": "b"}, "label": []},
            r"label \(\); valid: .*start",
        ),
        *(
            ("sib200", TEXT_ROW | {"fields": {"text": "a", "probabilities": given}}, message)
            for given, message in (
                ({"sports": 0.4}, r"field 'probabilities' is \{'sports': 0.4\}; valid: a share from 0 to 1"),
                ({"sports": 2, "travel": -1}, "valid: a share from 0 to 1 of each class, of sum 1"),
                ({"sports": "1"}, "valid: a share from 0 to 1 of each class, of sum 1"),
                ([0.5, 0.5], "valid: a share from 0 to 1 of each class, of sum 1"),
                ({"sport": 1.0}, "unknown label 'sport'.*did you mean 'sports'"),
            )
        ),
        (
            "mt",
            {"id": "1", "fields": {"text": "a"}, "label": None},
            r"label None; valid: reference translation",
        ),
    ],
)
def test_rows_of_another_shape_are_named_with_their_line(
    tmp_path: Path, suite: str, row: dict[str, object], message: str
) -> None:
    lang = "en-sw" if suite == "mt" else "xx"
    path = put(tmp_path / f"rows/{suite}/{lang}.test.jsonl", json.dumps(row) + "\n")
    with pytest.raises(UserError, match=rf"{lang}\.test\.jsonl:1: .*{message}"):
        load(suites()[suite], lang, "test", tmp_path)
    path.write_bytes(b"\n\xe9\n")
    with pytest.raises(UserError, match=rf"{lang}\.test\.jsonl line 2: byte 0xe9 at 0 is not UTF-8"):
        load(suites()[suite], lang, "test", tmp_path)


@pytest.mark.parametrize("name", ["doc_ids.txt", "DOCUMENT_IDS.tsv", ""])
def test_sentences_of_ntrex_know_their_document(name: str, tmp_path: Path) -> None:
    suite = dataclasses.replace(suites()["ntrex"], files=(), codes={})
    (tmp_path / "ntrex").mkdir()
    for code in ("de", "en"):
        (tmp_path / f"ntrex/ntrex.{code}.txt").write_text("a\nb\nc\n")
    if name:
        (tmp_path / "ntrex" / name).write_text("bbc.1\nbbc.1\ncnn.2\n")
    rows = load(suite, "de", "test", tmp_path)
    assert [suite.shape.block(row) for row in rows] == (["bbc.1", "bbc.1", "cnn.2"] if name else [None] * 3)
    if name:
        (tmp_path / "ntrex" / name).write_text("bbc.1\n")
        with pytest.raises(UserError, match="has only 1 lines; valid: one for each line of"):
            load(suite, "de", "test", tmp_path)


def test_files_are_found_by_any_code_of_their_language(tmp_path: Path) -> None:
    suite = dataclasses.replace(suites()["masakhaner"], files=(), codes={})
    for code in ("ewe", "zul", "en_ewt", "khm_Khmr", "sw"):
        write_ner(tmp_path / f"ner/masakhaner2/{code}.test.tsv")
    assert languages_at(suite, "test", tmp_path) == ["ee", "sw", "zu", "en_ewt", "km"]
    for lang in ("ee", "zu", "km", "en_ewt"):
        assert len(load(suite, lang, "test", tmp_path)) == 3
    write_ner(tmp_path / "ner/masakhaner2/ee.test.tsv", 2)
    assert len(load(suite, "ee", "test", tmp_path)) == 6, "the code of the table comes first"


SAID = '"""Ndiyo,"" alisema."'


@pytest.mark.parametrize(
    ("suite", "lang", "path", "head", "row"),
    [
        ("sib200", "sw", "sib200/swh_Latn.dev.tsv", "index_id category text", "7\tsports\t{}"),
        (
            "sib200",
            "sw",
            "sib-200/data/annotated/swh_Latn/dev.tsv",
            "index_id category text",
            "7\tsports\t{}",
        ),
        ("pawsx", "fr", "pawsx/dev.fr.tsv", "sentence1 sentence2 label", "{}\tb\t1"),
        ("xnli", "de", "nli/xnli.dev.de.tsv", "premise hypothesis label", "{}\tb\tneutral"),
        ("mldoc", "de", "mldoc/de.dev", "GCAT x", "ECAT\t{}"),
    ],
)
def test_cells_in_quotes_are_read_without_them(
    suite: str, lang: str, path: str, head: str, row: str, tmp_path: Path
) -> None:
    text = row.format('"""Ndiyo,"" alisema."')
    put(tmp_path / path, "\t".join(head.split()) + f"\n{text}\n")
    *_, example = load(dataclasses.replace(suites()[suite], files=()), lang, "dev", tmp_path)
    assert '"Ndiyo," alisema.' in example.fields.values()


def test_quotes_of_a_table_that_is_not_csv_are_text(tmp_path: Path) -> None:
    head = "premise\thypothesis\tlabel\n"
    texts = ['"Dia pergi," kata Pitt.', 'kota ("putri") itu', '"Ya."']
    put(
        tmp_path / "nli/indonli.dev.id.tsv",
        head + "".join(f"{text}\tb\tneutral\n" for text in texts),
    )
    rows = load(dataclasses.replace(suites()["indonli"], files=()), "id", "dev", tmp_path)
    assert [row.fields["text_a"] for row in rows] == texts


def test_a_table_that_is_csv_only_in_part_is_read_as_it_stands_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(
        tmp_path / "pawsx/dev.fr.tsv", 'sentence1\tsentence2\tlabel\n"""Oui"" a"\tb\t1\n"Oui" a\tb\t1\n'
    )
    rows = load(dataclasses.replace(suites()["pawsx"], files=()), "fr", "dev", tmp_path)
    assert [row.fields["text_a"] for row in rows] == ['"""Oui"" a"', '"Oui" a']
    assert f"{path}: 1 cells have the quotes of CSV, but the file is not CSV" in capsys.readouterr().err


def test_tokens_in_quotes_are_read_without_them(tmp_path: Path) -> None:
    suite = dataclasses.replace(suites()["masakhaner"], files=())
    put(tmp_path / "ner/masakhaner2/swa.dev.tsv", '""""\tO\nAmina\tB-PER\n""""\tO\n\n"\tO\n"""Simba"""\tO\n')
    rows = load(suite, "sw", "dev", tmp_path)
    assert [row.fields["tokens"] for row in rows] == [('"', "Amina", '"'), ('"', '"Simba"')]
    put(tmp_path / "masakhane-ner/MasakhaNER2.0/data/hau/test.txt", '"""" O\nAmina B-PER\n')
    assert load(suite, "ha", "test", tmp_path)[0].fields["tokens"] == ('"', "Amina")
    put(tmp_path / "ner/masakhaner2/wol.test.tsv", '"\tO\n"Amina\tB-PER\n""\tO\n""""\tO\n')
    assert load(suite, "wo", "test", tmp_path)[0].fields["tokens"] == ('"', '"Amina', '""', '""""')


def test_the_line_of_a_wrong_tag_is_named(tmp_path: Path) -> None:
    word = "{}\tform\t_\t{}\t_\t_\t_\t_\t_\t_\n"
    body = word.format("1-2", "_") + word.format(1, "NOUN") + word.format(2, "NAUN")
    put(
        tmp_path / "UD_English-PUD/en_pud-ud-test.conllu",
        f"# sent_id = a\n{word.format(1, 'X')}\n# sent_id = b\n{body}\n",
    )
    with pytest.raises(UserError, match=r"test\.conllu:7: unknown label 'NAUN'"):
        load(dataclasses.replace(suites()["udpos"], files=()), "en", "test", tmp_path)
    put(
        tmp_path / "xsid/de.valid.conll",
        "# id = 7\n# text = Regnet\n# intent = wether\n1\tRegnet\twether\tO\n\n",
    )
    with pytest.raises(UserError, match=r"conll:3: unknown label 'wether'"):
        load(dataclasses.replace(suites()["xsid"], files=()), "de", "dev", tmp_path)
