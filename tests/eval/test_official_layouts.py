"""Files of official repositories, in their layout and unchanged, and which of several test sets is scored."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from xling.core.errors import UserError
from xling.eval.rows.suite import data_digest, languages_at, load, scored_split, suites

CONLLU = """# newdoc id = n01
# sent_id = n01001
# text = Go home!
1-2\tGohome\t_\t_\t_\t_\t_\t_\t_\t_
1\tGo\tgo\tVERB\t_\t_\t0\troot\t_\t_
2\thome\thome\tADV\t_\t_\t1\tadvmod\t_\t_
2.1\tx\tx\tX\t_\t_\t_\t_\t_\t_
3\t!\t!\tPUNCT\t_\t_\t1\tpunct\t_\t_

# text = Yes
1\tYes\tyes\tINTJ\t_\t_\t0\troot\t_\t_
"""
PAIRS = "id\tlanguage\tpremise\thypothesis\tlabel\n7\t{}\ta\tb\tneutral\n"
OFFICIAL = (
    ("americasnli", "oto", "test", {"americasnli/data/anli_final/test/oto.tsv": PAIRS}, ("0", "a", "neutral")),
    ("americasnli", "qu", "dev", {"americasnli/data/anli_final/dev/quy.tsv": PAIRS}, ("0", "a", "neutral")),
    (
        "mafand", "sw-en", "test",
        {"lafand-mt/data/text_files/en-swa/test.en": "one\n", "lafand-mt/data/text_files/en-swa/test.swa": "moja\n"},
        ("0", "moja", "one"),
    ),
    (
        "indonli", "id", "test_expert",
        {
            "indonli/data/indonli/test_expert.jsonl":
            '{"pair_id": 33321, "label": "c", "premise": "p", "hypothesis": "h", "topics": "film"}\n'
        },
        ("33321", "p", "contradiction"),
    ),
    (
        "indonli", "id", "dev",
        {"indonli/data/indonli/val.jsonl": '{"pair_id": 1, "label": "e", "premise": "p", "hypothesis": "h"}\n'},
        ("1", "p", "entailment"),
    ),
    (
        "xcopa", "id", "dev",
        {
            "xcopa/data/id/val.id.jsonl":
            '{"premise": "p", "choice1": "a", "choice2": "b", "question": "effect", "label": 1, "idx": 7}\n'
        },
        ("7", "p", 1),
    ),
    (
        "xsid", "de_st", "test",
        {
            "xsid/data/xSID-0.6/de-st.test.conll":
            "# id = 1\n# text-en = stop\n# text = her\n# intent = alarm/cancel_alarm\n1\ther\talarm/cancel_alarm\tO\n\n"
        },
        ("1", ("her",), ("alarm/cancel_alarm", ("O",))),
    ),
    (
        "masakhaner", "xh", "train",
        {"masakhane-ner/MasakhaNER2.0/data/xho/train.txt": "uNdila B-PER\n O\nuthuma O\n\n"},
        ("0", ("uNdila",), ("B-PER",)),
    ),
    ("farstail", "fa", "test", {"FarsTail/data/Test-word.csv": 'premise\thypothesis\tlabel\n"a ""b"""\tc\tn\n'},
     ("0", 'a "b"', "neutral")),
    ("udpos", "cs", "test", {"UD_Czech-PUD/cs_pud-ud-test.conllu": CONLLU},
     ("n01001", ("Go", "home", "!"), ("VERB", "ADV", "PUNCT"))),
    ("udpos", "en", "train", {"UD_English-EWT/en_ewt-ud-train.conllu": CONLLU},
     ("n01001", ("Go", "home", "!"), ("VERB", "ADV", "PUNCT"))),
    (
        "multi30k", "en-de", "test_2018_flickr",
        {f"dataset/data/task1/raw/test_2018_flickr.{x}.gz": f"a {x}\n" for x in ("en", "de")},
        ("0", "a en", "a de"),
    ),
    (
        "multi30k_retrieval", "de", "test_2017_mscoco",
        {f"multi30k/data/task1/raw/test_2017_mscoco.{x}.gz": f"a {x}\n" for x in ("en", "de")},
        ("0", "a de", 0),
    ),
    (
        "belebele", "sw", "test",
        {
            "Belebele/swh_Latn.jsonl": json.dumps({
                "link": "https://a.b/c", "question_number": 2, "flores_passage": "Bahari.", "question": "Nini?",
                "mc_answer1": "a", "mc_answer2": "b", "mc_answer3": "c", "mc_answer4": "d", "correct_answer_num": "3",
                "dialect": "swh_Latn", "ds": "2023-05-03",
            })
        },
        ("https://a.b/c#2", "Bahari. Nini?", 2),
    ),
    (
        "sib200", "ks_Deva", "test",
        {"sib-200/data/annotated/kas_Deva/test.tsv": "index_id\tcategory\ttext\n15\thealth\ta\n"},
        ("15", "a", "health"),
    ),
    ("sib200", "nqo", "dev", {"sib200/data/nqo_Nkoo/dev.tsv": "index_id\tcategory\ttext\n15\thealth\ta\n"},
     ("15", "a", "health")),
    ("afrixnli", "ee", "test", {"afrixnli/data/ewe/test.tsv": "premise\thypothesis\tlabel\na\tb\t2\n"},
     ("0", "a", "contradiction")),
    ("afrixnli", "zu", "dev", {"afrixnli/data/zul/dev.tsv": "premise\thypothesis\tlabel\na\tb\tneutral\n"},
     ("0", "a", "neutral")),
    ("afrixnli", "sw", "test",
     {"afrixnli/data/swa/test.tsv": 'premise\thypothesis\tlabel\n"He said ""no""\tand left."\tb\t0\n'},
     ("0", 'He said "no"\tand left.', "entailment")),
    ("masakhapos", "sw", "test", {"masakhane-pos/data/swa/test.txt": "Mimi PRON\nnina VERB\n\n"},
     ("0", ("Mimi", "nina"), ("PRON", "VERB"))),
    (
        "xstorycloze", "sw", "test",
        {
            "xstorycloze/spring2016.val.sw.tsv.split_20_80_eval.tsv":
            "InputStoryid\t" + "\t".join(f"InputSentence{n}" for n in (1, 2, 3, 4))
            + "\tRandomFifthSentenceQuiz1\tRandomFifthSentenceQuiz2\tAnswerRightEnding\n"
            "x-1\tA.\tB.\tC.\tD.\tE.\tF.\t2\n"
        },
        ("x-1", "A. B. C. D.", 1),
    ),
    (
        "xstorycloze", "eu", "train",
        {
            "xstory_cloze/spring2016.val.eu.tsv.split_20_80_train.tsv":
            "story_id\tinput_sentence_1\t2\t3\t4\tsentence_quiz1\tsentence_quiz2\tanswer_right_ending\n"
            "x-1\tA.\tB.\tC.\tD.\tE.\tF.\t2\n"
        },
        ("x-1", "A. B. C. D.", 1),
    ),
    ("xglue_nc", "fr", "test", {"xglue_full_dataset/NC/xglue.nc.fr.test": "title\tbody\tsports\n"},
     ("0", "title", "sports")),
    ("xglue_qadsm", "de", "dev", {"xglue_full_dataset/QADSM/xglue.qadsm.de.dev": "query\tad\ttext\tGood\n"},
     ("0", "query", "Good")),
    ("xglue_wpr", "pt", "test", {"xglue_full_dataset/WPR/xglue.wpr.pt.test": "query\tpage\ttext\t3\n"},
     ("0", "query", "3")),
    ("sts17", "en-de", "test", {"STS2017-extended/STS.en-de.txt": "one\teins\t4.8\n"}, ("0", "one", 4.8)),
    ("sts17", "ko-ko", "test",
     {"sts17-crosslingual-sts/test/ko-ko.jsonl.gz": '{"sentence1": "a", "sentence2": "b", "score": 2.5}\n'},
     ("0", "a", 2.5)),
    ("sts22", "de-de", "test",
     {"sts22-crosslingual-sts/test/de.jsonl.gz": '{"id": "1_2", "sentence1": "a", "sentence2": "b", "score": 3.0}\n'},
     ("1_2", "a", 3.0)),
    ("sts22", "pl-en", "test",
     {"sts22-crosslingual-sts/test/pl-en.jsonl": '{"id": "1_2", "sentence1": "a", "sentence2": "b", "score": 3}\n'},
     ("1_2", "a", 3.0)),
    (
        "sts22", "pl-en", "test",
        {
            "sts22-crosslingual-sts/data/test.jsonl.gz":
            '{"id": "1_2", "score": 1, "sentence1": "c", "sentence2": "d", "lang": "en"}\n'
            '{"id": "3_4", "score": 2.5, "sentence1": "a", "sentence2": "b", "lang": "pl-en"}\n'
        },
        ("3_4", "a", 2.5),
    ),
    (
        "sts22", "en-en", "test",
        {
            "sts22-crosslingual-sts/data/test.jsonl.gz":
            '{"id": "3_4", "score": 2.5, "sentence1": "a", "sentence2": "b", "lang": "pl-en"}\n'
            '{"id": "1_2", "score": 1, "sentence1": "c", "sentence2": "d", "lang": "en"}\n'
        },
        ("1_2", "c", 1.0),
    ),
    (
        "belebele", "sw", "test",
        {
            "belebele/data/swh_Latn.jsonl": json.dumps({
                "link": "https://a.b/c", "question_number": 2, "flores_passage": "Bahari.", "question": "Nini?",
                "mc_answer1": "a", "mc_answer2": "b", "mc_answer3": "c", "mc_answer4": "d", "correct_answer_num": "3",
            })
        },
        ("https://a.b/c#2", "Bahari. Nini?", 2),
    ),
    (
        "mewslix", "de", "test",
        {
            f"dense_representations_for_entity_retrieval/mel/mewsli_x/output/dataset/{name}.jsonl": json.dumps(record)
            for name, record in (
                (
                    "wikinews_mentions-test",
                    {
                        "context": {
                            "document_title": "Streik", "document_url": "https://de.wikinews.org/wiki?curid=3",
                            "document_id": "de-3", "language": "de", "text": "Streik\n\nIn Bonn ruht der Verkehr.",
                            "sentence_spans": [{"start": 0, "end": 6}, {"start": 8, "end": 33}],
                        },
                        "mentions": [{
                            "example_id": "c795", "mention_span": {"start": 11, "end": 15, "text": "Bonn"},
                            "entity_id": "Q586",
                            "metadata": {"curid": "3", "revid": "4", "text_md5": "c0", "bin_name": "bin04_1000-inf"},
                        }],
                    },
                ),
                (
                    "candidate_set_entities",
                    {
                        "entity_id": "Q586", "title": "Bonn", "description": "Bonn este un oraș.",
                        "sentence_spans": [{"start": 0, "end": 18}], "description_language": "ro",
                        "description_url": "https://ro.wikipedia.org/wiki/Bonn",
                    },
                ),
            )
        },
        ("c795", "Bonn: In { Bonn } ruht der Verkehr.", ("Q586",)),
    ),
    ("multiblimp", "ar", "test",
     {"multiblimp/arb/data.tsv": "sen\twrong_sen\tprefix\n\"a \"\"b\"\" c\"\t\"a \"\"b\"\" d\"\ta\n"},
     ("0", ('a "b" c', 'a "b" d'), 0)),
    (
        "xwinograd", "ja", "test",
        {
            "xwinograd/test/jp.jsonl":
            '{"sentence": "The cup hit it as _ was hard.", "option1": "the cup", "option2": "the bag", "answer": "1"}'
        },
        ("0", "The cup hit it as", 0),
    ),
    (
        "flores", "en-sw", "test",
        {
            "flores200_dataset/devtest/eng_Latn.devtest": "one\n",
            "flores200_dataset/devtest/swh_Latn.devtest": "moja\n",
        },
        ("0", "one", "moja"),
    ),
    (
        "mafand", "sw-en", "dev",
        {
            "lafand-mt/data/text_files/en-swa/dev.en": "one\n",
            "lafand-mt/data/text_files/en-swa/dev.swa": "moja\n",
        },
        ("0", "moja", "one"),
    ),
    (
        "ntrex", "cy", "test",
        {
            "NTREX/NTREX-128/newstest2019-src.eng.txt": "one\n",
            "NTREX/NTREX-128/newstest2019-ref.cym.txt": "un\n",
            "NTREX/DOCUMENT_IDS.tsv": "bbc.1\n",
        },
        ("0", "un", 0),
    ),
)  # fmt: skip


@pytest.mark.parametrize(("name", "lang", "split", "files", "first"), OFFICIAL)
def test_clones_of_official_repositories_are_read_as_they_are(
    name: str, lang: str, split: str, files: dict[str, str], first: tuple[Any, ...], tmp_path: Path
) -> None:
    for place, text in files.items():
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    suite = suites()[name]
    row, *_ = load(suite, lang, split, tmp_path)
    text = next(
        value
        for key, value in row.fields.items()
        if key in ("text_a", "text", "tokens", "premise", "choices")
    )
    assert (row.id, text, row.label) == first
    assert lang in languages_at(suite, split, tmp_path) or name == "flores", "pairs of FLORES are named"
    named = split if split.startswith("test_") else ""
    assert split == "train" or scored_split(suite, lang, tmp_path, named) == split
    if name == "ntrex":
        assert row.fields["document"] == "bbc.1"


def test_averages_hold_all_languages_of_the_published_suite_and_no_variant_of_the_source() -> None:
    """SIB-200 has FLORES-200's languages and N'Ko; NTREX-128 has English and six variants besides."""
    assert len(set(suites()["sib200"].languages)) == len(suites()["sib200"].languages) == 205
    ntrex = suites()["ntrex"].languages
    assert len(set(ntrex)) == len(ntrex) == 121
    assert not {"en", "en_GB", "es_MX"} & set(ntrex)


def test_the_digest_of_one_file_is_that_of_its_bytes_and_of_several_that_of_their_digests(
    tmp_path: Path,
) -> None:
    """Signatures hold it: it may not change."""
    names = ("rows/sib200/sw.test.jsonl", "ntrex/ntrex.eng.part1.txt", "ntrex/ntrex.cym.part1.txt")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    for suite, lang, num in (("sib200", "sw", 1), ("ntrex", "cy", 2)):
        paths = suites()[suite].paths(lang, "test", tmp_path)
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
        assert len(digests) == num
        whole = digests[0] if num == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
        assert data_digest(suites()[suite], lang, "test", tmp_path) == whole


@pytest.mark.parametrize("place", ["NTREX/NTREX-128/newstest2019-{kind}.{code}", "ntrex/ntrex.{code}"])
def test_ntrex_is_read_whole_or_in_parts(place: str, tmp_path: Path) -> None:
    parts = {"eng": ["one\ntwo\n", "three\n"], "cym": ["un\n", "dau\n", "tri\n"]}
    for code, texts in parts.items():
        for number, text in enumerate(texts, 1):
            kind = "src" if code == "eng" else "ref"
            path = tmp_path / f"{place.format(kind=kind, code=code)}.part{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    (path.parent / "DOCUMENT_IDS.tsv").write_text("a\na\nb\n")
    suite = suites()["ntrex"]
    assert languages_at(suite, "test", tmp_path) == ["cy"]
    rows = load(suite, "cy", "test", tmp_path)
    assert [(r.fields["text_a"], r.fields["text_b"]) for r in rows] == [
        ("un", "one"),
        ("dau", "two"),
        ("tri", "three"),
    ]
    assert [r.fields["document"] for r in rows] == ["a", "a", "b"]
    assert [(r.id, r.label) for r in rows] == [("0", 0), ("1", 1), ("2", 2)]
    before = data_digest(suite, "cy", "test", tmp_path)
    path.write_text("tri tri\n")
    assert data_digest(suite, "cy", "test", tmp_path) != before, "every part is in the digest"
    path.unlink()
    with pytest.raises(UserError, match=r"2 and .*3 lines; valid: as many lines"):
        load(suite, "cy", "test", tmp_path)


@pytest.mark.parametrize(
    ("name", "columns", "answer"),
    [
        ("nc", "t\tb", "sports"),
        ("nc", "q\tt\tb", "sports"),
        ("qadsm", "q\ta\tt", "Bad"),
        ("wpr", "q\ta\tt", "4"),
        ("qam", "q\tp", "1"),
    ],
)
def test_a_test_file_without_answers_stays_where_it_is_and_dev_rows_are_scored(
    name: str, columns: str, answer: str, tmp_path: Path
) -> None:
    """XGLUE publishes its test rows without the last column, below the same names as the others."""
    suite, folder = suites()[f"xglue_{name}"], tmp_path / f"xglue_full_dataset/{name.upper()}"
    folder.mkdir(parents=True)
    (folder / f"xglue.{name}.de.dev").write_text(f"{columns}\t{answer}\n" * 2)
    (folder / f"xglue.{name}.de.test").write_text(f"{columns}\n" * 2)
    assert languages_at(suite, "test", tmp_path) == []
    assert scored_split(suite, "de", tmp_path) == "dev"
    assert [row.label for row in load(suite, "de", "dev", tmp_path)] == [answer, answer]
    with pytest.raises(UserError, match=rf"no test rows in 'de': .*xglue\.{name}\.de\.test has no answers"):
        load(suite, "de", "test", tmp_path)
    (folder / f"xglue.{name}.de.test").write_text(f"{columns}\t{answer}\n")
    assert scored_split(suite, "de", tmp_path) == "test", "with answers it is scored"


def test_a_quote_that_is_never_closed_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "afrixnli/data/swa/test.tsv"
    path.parent.mkdir(parents=True)
    path.write_text('premise\thypothesis\tlabel\n"a\tb\t0\nc\td\t1\n')
    with pytest.raises(UserError, match=r"test\.tsv:2: 1 columns"):
        load(suites()["afrixnli"], "sw", "test", tmp_path)


def test_a_rating_that_is_no_number_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "sts17-crosslingual-sts/test/ko-ko.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"sentence1": "a", "sentence2": "b", "score": "high"}\n')
    with pytest.raises(UserError, match=r"ko-ko\.jsonl:1: a value has the wrong type"):
        load(suites()["sts17"], "ko-ko", "test", tmp_path)


def test_ids_that_official_files_repeat_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "indonli/data/indonli/val.jsonl"
    path.parent.mkdir(parents=True)
    row = '{"pair_id": 1, "label": "e", "premise": "p", "hypothesis": "h"}\n'
    path.write_text(row * 3 + row.replace("1", "2"))
    assert [row.id for row in load(suites()["indonli"], "id", "dev", tmp_path)] == ["1", "1#2", "1#3", "2"]


def test_packed_files_are_discovered(tmp_path: Path) -> None:
    path = tmp_path / "nli/xnli.test.eu.tsv.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"premise\thypothesis\tlabel\na\tb\tneutral\n"))
    assert languages_at(suites()["xnli"], "test", tmp_path) == ["eu"]


def test_a_test_set_is_named_where_there_are_several(tmp_path: Path) -> None:
    suite = suites()["indonli"]
    for name in ("test_lay", "val"):
        path = tmp_path / f"indonli/data/indonli/{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"pair_id": 1, "label": "e", "premise": "p", "hypothesis": "h"}\n')
    assert scored_split(suite, "id", tmp_path) == "test_lay", "a test set goes before dev rows"
    with pytest.raises(
        UserError, match=r"no test_expert rows in 'id': no file .*indonli\.test_expert\.id\.tsv"
    ):
        scored_split(suite, "id", tmp_path, "test_expert")
    with pytest.raises(
        UserError, match="unknown test set of indonli 'test_2018'; valid: test_expert, test_lay"
    ):
        scored_split(suite, "id", tmp_path, "test_2018")
