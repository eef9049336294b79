"""Metrics beside independent ports of the official scorers' published rules, and beside the libraries."""

from __future__ import annotations

import random
import re
import string
import unicodedata
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from xling.core.errors import UserError
from xling.eval.metrics import METRICS, evaluate
from xling.eval.metrics.base import f1, mean
from xling.eval.metrics.qa import normalise_mlqa, normalise_squad
from xling.eval.metrics.text import UnicodeTokenizer, scorer
from xling.eval.rows.suite import Example
from xling.text.tokenizers.bleu_words import bleu_tokeniser

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
SENTENCE = st.integers(1, 7).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from(TAGS), min_size=n, max_size=n),
        st.lists(st.sampled_from(TAGS), min_size=n, max_size=n),
    )
)


def score(name: str, golds: list[Any], answers: list[Any], lang: str = "en", **fields: Any) -> float:
    rows = [Example(str(i), fields, gold) for i, gold in enumerate(golds)]
    return evaluate(METRICS[name], rows, answers, lang)[0]


def conlleval(pairs: list[tuple[list[str], list[str]]]) -> float:
    """F1 by the rules of conlleval.pl: a chunk starts at B-, or at I- after O or after another type, and ends
    before the next start, before O, or at the end of the sentence; it is right when start, end and type
    are."""

    def chunks(tags: list[str]) -> set[tuple[int, int, str]]:
        found, start, kind = set(), -1, ""
        for i, tag in enumerate([*tags, "O"]):
            prefix, _, here = tag.partition("-")
            if kind and (prefix in ("O", "B") or here != kind):
                found.add((start, i, kind))
                kind = ""
            if prefix == "B" or (prefix == "I" and not kind):
                start, kind = i, here
        return found

    right = predicted = gold_count = 0
    for gold, answer in pairs:
        a, b = chunks(gold), chunks(answer)
        right, predicted, gold_count = right + len(a & b), predicted + len(b), gold_count + len(a)
    return 200 * right / (predicted + gold_count) if predicted + gold_count else 0.0


@given(st.lists(SENTENCE, min_size=1, max_size=6))
def test_span_f1_equals_conlleval_on_malformed_sequences(pairs: list[tuple[list[str], list[str]]]) -> None:
    golds, answers = [tuple(g) for g, _ in pairs], [a for _, a in pairs]
    assert score("span_f1", golds, answers) == pytest.approx(conlleval(pairs))


@given(st.lists(SENTENCE, min_size=1, max_size=6))
def test_both_modes_equal_seqeval(pairs: list[tuple[list[str], list[str]]]) -> None:
    from seqeval.metrics import f1_score
    from seqeval.scheme import IOB2

    golds, answers = [g for g, _ in pairs], [a for _, a in pairs]
    spans = sum(tag != "O" for tags in [*golds, *answers] for tag in tags)
    if not spans:
        return
    rows = [tuple(g) for g in golds]
    assert score("span_f1", rows, answers) == pytest.approx(100 * f1_score(golds, answers, zero_division=0))
    strict = f1_score(golds, answers, mode="strict", scheme=IOB2, zero_division=0)
    assert score("span_f1_strict", rows, answers) == pytest.approx(100 * strict)


def test_the_modes_differ_where_a_span_lacks_its_beginning() -> None:
    assert score("span_f1", [("I-PER", "O")], [["B-PER", "O"]]) == 100
    assert score("span_f1_strict", [("I-PER", "O")], [["B-PER", "O"]]) == 0
    assert "mode:default" in METRICS["span_f1"].signature("en")
    assert "mode:strict-IOB2" in METRICS["span_f1_strict"].signature("en")


def test_words_that_were_not_seen_are_wrong_and_not_dropped() -> None:
    gold = [("NOUN", "VERB", "NOUN")]
    assert score("tag_accuracy", gold, [["NOUN", "VERB", None]]) == pytest.approx(200 / 3)
    assert score("span_f1", [("B-PER", "O", "B-LOC")], [["B-PER", None, None]]) == pytest.approx(200 / 3)
    for name in ("tag_accuracy", "span_f1"):
        with pytest.raises(UserError, match="row '0': 2 tags; valid: 3"):
            score(name, gold, [["NOUN", "VERB"]])


def test_another_number_of_predictions_is_refused() -> None:
    with pytest.raises(UserError, match="1 predictions; valid: 2"):
        score("accuracy", ["a", "b"], ["a"])


def test_classes_intents_and_dictionaries() -> None:
    assert score("accuracy", ["a", "b", "a"], ["a", "a", "a"]) == pytest.approx(200 / 3)
    golds = [("alarm", ("B-time", "O")), ("weather", ("O", "B-place"))]
    answers = [["alarm", ["B-time", "O"]], ["alarm", ["O", "B-place"]]]
    assert score("intent_accuracy", golds, answers) == 50
    assert score("slot_f1", golds, answers) == 100
    assert score("fully_correct", golds, answers) == 50
    assert score("bli_p1", [("mbwa", "jibwa"), ("paka",)], ["jibwa", "mbwa"]) == 50


def test_mining_counts_the_source_side_once() -> None:
    rows = [
        Example("fr-1", {"side": "src"}, ("en-1",)),
        Example("fr-2", {"side": "src"}, ()),
        Example("fr-3", {"side": "src"}, ("en-3",)),
        Example("en-1", {"side": "tgt"}, ()),
    ]
    value, _ = evaluate(METRICS["mining_f1"], rows, [["en-1"], ["en-3"], [], []], "fr")
    assert value == pytest.approx(2 * 1 / (2 + 2) * 100)


# The rules of SQuAD's evaluate-v1.1.py and MLQA's mlqa_evaluation_v1.py, written again step by step.
ARTICLES = {
    "en": r"\b(a|an|the)\b",
    "es": r"\b(un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(của|là|cái|chiếc|những)\b",
    "de": r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "ar": r"\sال^|ال",
}
PUNCTUATION = {chr(i) for i in range(0x11FFF) if unicodedata.category(chr(i))[0] == "P"} | set(
    string.punctuation
)
TEXTS = [
    "The Cat, sat on a mat!",
    "a an the",
    "",
    "  ",
    "U.S.A. – 1,000 €",
    "der Hund — die Katze „das“",
    "El niño y las niñas…",
    "中华人民共和国（PRC）1949年",
    "東京 Tokyo，日本。",
    "البيت الكبير، الى",
    "những cái bàn của tôi",
    "हिन्दी में। दो",
    "naïve façade «the» theatre",
    "x\u3000y\u00a0z\tw",
    "𠀀𠀁 mixed 漢字かな",
    "don't can’t e-mail A",
]


def slow_squad(text: str) -> str:
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(ARTICLES["en"], " ", text).split())


def slow_mlqa(text: str, lang: str) -> str:
    text = "".join(c for c in text.lower() if c not in PUNCTUATION)
    if lang in ARTICLES:
        text = re.sub(ARTICLES[lang], " ", text)
    if lang != "zh":
        return " ".join(text.split())
    tokens, held = [], ""
    for c in text:
        if "\u4e00" <= c <= "\u9fa5":
            tokens += [*held.split(), c]
            held = ""
        else:
            held += c
    return " ".join([*tokens, *held.split()])


def slow_f1(found: str, gold: str) -> float:
    shared = sum((Counter(found.split()) & Counter(gold.split())).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(found.split()), shared / len(gold.split())
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("lang", ["en", "es", "hi", "vi", "de", "ar", "zh"])
def test_question_answering_equals_the_published_rules(lang: str) -> None:
    for text in TEXTS:
        assert normalise_squad(text) == slow_squad(text)
        assert normalise_mlqa(text, lang) == slow_mlqa(text, lang)
    for answer in TEXTS:
        for gold in TEXTS:
            label = ((gold, 0), ("the other", 0))
            pairs = [(slow_mlqa(answer, lang), slow_mlqa(g, lang)) for g, _ in label]
            f1, em = max(slow_f1(*p) for p in pairs), max(float(a == b) for a, b in pairs)
            assert score("mlqa_f1", [label], [answer], lang) == pytest.approx(100 * f1)
            assert score("mlqa_em", [label], [answer], lang) == pytest.approx(100 * em)
            pairs = [(slow_squad(answer), slow_squad(g)) for g, _ in label]
            assert score("squad_f1", [label], [answer], lang) == pytest.approx(
                100 * max(slow_f1(*p) for p in pairs)
            )


@given(st.text(max_size=30), st.sampled_from(["en", "es", "hi", "vi", "de", "ar", "zh"]))
def test_normalisation_equals_the_published_rules_on_any_text(text: str, lang: str) -> None:
    assert normalise_squad(text) == slow_squad(text)
    if max(text, default="") < "\U00011fff":
        assert normalise_mlqa(text, lang) == slow_mlqa(text, lang)


def test_exact_answers_and_languages_without_rules() -> None:
    label = (("the White House", 0),)
    assert score("squad_em", [label], ["White House."]) == 100
    assert score("squad_f1", [label], ["house of the white"]) == pytest.approx(80.0)
    with pytest.raises(UserError, match="unknown language of MLQA's scorer 'sw'"):
        score("mlqa_f1", [label], ["x"], "sw")


HYPOTHESES = ["The cat sat on the mat.", "Habari ya asubuhi, rafiki!", "Es regnet heute nicht", ""]
REFERENCES = [
    "The cat is on the mat.",
    "Habari za asubuhi rafiki!",
    "Heute regnet es nicht.",
    "Something else.",
]


def test_translation_scores_and_signatures_are_sacrebleu_s() -> None:
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF(word_order=2)), ("ter", TER())):
        wanted = metric.corpus_score(HYPOTHESES, [REFERENCES])
        assert score(name, REFERENCES, HYPOTHESES, "en-sw") == pytest.approx(wanted.score, abs=1e-9)
        assert METRICS[name].signature("en-sw") == f"{name}|{metric.get_signature()}"
    assert "tok:zh" in METRICS["bleu"].signature("en-zh")
    assert "tok:char" in METRICS["bleu"].signature("en-th")
    chinese = [["我 今天很高兴。"], ["我今天 高兴。"]]
    wanted = BLEU(tokenize="zh").corpus_score(chinese[0], [chinese[1]])
    assert score("bleu", chinese[1], chinese[0], "en-zh") == pytest.approx(wanted.score, abs=1e-9)
    assert not METRICS["ter"].higher_is_better


def test_rouge_equals_rouge_score_on_ascii_and_reads_other_scripts() -> None:
    from rouge_score.rouge_scorer import RougeScorer  # here: every process imports what stands above

    judge = RougeScorer(["rougeL"])
    pairs = list(zip(REFERENCES, HYPOTHESES, strict=True))
    wanted = sum(judge.score(r, h)["rougeL"].fmeasure for r, h in pairs) / len(pairs)
    assert score("rouge_l", REFERENCES, HYPOTHESES) == pytest.approx(100 * wanted)
    assert UnicodeTokenizer().tokenize("Дом, 北京 ok") == ["дом", "北", "京", "ok"]
    assert score("rouge_l", ["北京是首都"], ["北京是城市"], "zh") == pytest.approx(60.0)


@pytest.mark.parametrize(
    "code", ["zh", "zh-CN", "en-zh", "en-cmn", "en-zho", "en-zh-CN", "en-zh_Hant", "zho_Hans"]
)
def test_the_tokeniser_is_chosen_by_the_language_and_not_by_its_code(code: str) -> None:
    assert "tok:zh" in METRICS["bleu"].signature(code)
    assert METRICS["ter"].signature(code) == METRICS["ter"].signature("ja")
    assert score("bleu", ["我今天 高兴。"], ["我今天高兴。"], code) == pytest.approx(100.0)


def test_codes_of_other_languages_and_of_none() -> None:
    assert f"tok:{bleu_tokeniser('ja')}" in METRICS["bleu"].signature("eng-jpn")
    assert "tok:char" in METRICS["bleu"].signature("en-tha")
    assert "tok:13a" in METRICS["bleu"].signature("zh-en")
    assert "tok:13a" in METRICS["bleu"].signature("en-made_up")
    assert "stemmer:porter" in METRICS["meteor"].signature("sw-eng")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("हिन्दी में लिखो!", ["हिन्दी", "में", "लिखो"]),
        ("আমি বাংলা বলি।", ["আমি", "বাংলা", "বলি"]),
        ("நான் தமிழ்", ["நான்", "தமிழ்"]),
        ("می\u200cخواهم رفت", ["می\u200cخواهم", "رفت"]),
        ("Cafe\u0301 İş_1 ☺\ufe0f", ["café", "i̇ş", "1"]),
        ("ไก่ ok", ["ไ", "ก", "่", "ok"]),
    ],
)
def test_words_keep_their_vowel_signs(text: str, words: list[str]) -> None:
    assert UnicodeTokenizer().tokenize(text) == words
    assert UnicodeTokenizer().tokenize(unicodedata.normalize("NFD", text)) == words
    for name in ("rouge_l", "meteor"):
        assert f"{name}:2|" in METRICS[name].signature("hi")


def test_words_that_differ_in_a_vowel_sign_are_different_words() -> None:
    assert score("rouge_l", ["कल की"], ["काल का"], "hi") == 0


def test_meteor_matches_stems_in_english_only() -> None:
    assert score("meteor", ["the cats sat"], ["the cat sat"], "en") > 90
    assert score("meteor", ["the cats sat"], ["the cat sat"], "sw") < 90
    assert "synonyms:none" in METRICS["meteor"].signature("en")


def test_outputs_in_another_language_or_in_none_are_off_target() -> None:
    made = [
        "Le chien court dans le parc.",
        "The dog runs in the park.",
        "",
        "12",
        "LE CHAT DORT SUR LA TABLE",
    ]
    assert score("in_language", made, made, "en-fr") == pytest.approx(40.0)
    assert score("in_language", made, made, "fr-en") == pytest.approx(20.0)
    assert "lid.176" in METRICS["in_language"].signature("fr")


@pytest.mark.parametrize("name", sorted(name for name in METRICS if METRICS[name].check is None))
def test_every_metric_survives_empty_sums_and_signs_itself(name: str) -> None:
    metric = METRICS[name]
    assert metric.signature("en")
    width = {mean: 2, f1: 3}.get(metric.reduce) or metric.stats([], [], "en").shape[1]
    assert metric.reduce(np.zeros((2, width))).shape == (2,)


_TEXTS = st.lists(
    st.sampled_from(
        ["(hi)", "the", "boat.", "-", "ครู", "中文字", "e\u0301", "  ", "\u3000", "\ud83d\ude00", "aaa"]
    )
    | st.text(max_size=5),
    max_size=8,
).map(" ".join)


@given(st.lists(st.tuples(_TEXTS, _TEXTS, st.booleans()), min_size=1, max_size=6))
@settings(max_examples=150)
@pytest.mark.parametrize(("name", "lang"), [("chrf", "de"), ("ter", "de"), ("ter", "zh"), ("bleu", "th")])
def test_counts_are_sacrebleus(name: str, lang: str, rows: list[tuple[str, str, bool]]) -> None:
    examples = [Example(str(i), {"text": ""}, reference) for i, (reference, _, _) in enumerate(rows)]
    found = [reference if same else other for reference, other, same in rows]
    wanted = scorer(name, lang)._extract_corpus_statistics(found, [[e.label for e in examples]])
    assert METRICS[name].stats(examples, found, lang).tolist() == [list(map(float, row)) for row in wanted]


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=14, max_size=14), min_size=1, max_size=5),
    st.integers(0, 20),
)
def test_many_scores_at_once_are_sacrebleus(rows: list[list[int]], length: int) -> None:
    # Counts that texts can have: who shares a longer run shares its parts, and a text is as long as it has words.
    shared = np.minimum.accumulate(np.array(rows)[:, :4], axis=1)
    total = np.minimum.accumulate(shared + np.array(rows)[:, 6:10], axis=1)
    bleu = np.hstack([total[:, :1], np.array(rows)[:, 5:6] + length, shared, total])
    chrf = np.array([row + row[:10] for row in rows])
    chrf[:, 2::3] = np.minimum(np.minimum(chrf[:, 0::3], chrf[:, 1::3]), chrf[:, 2::3])
    for name, sums in (("bleu", bleu), ("chrf", chrf), ("ter", np.array(rows)[:, :2])):
        each = [float(METRICS[name].reduce(row.astype(np.float64))) for row in sums]
        assert METRICS[name].reduce(sums.astype(np.float64)).tolist() == pytest.approx(each, abs=1e-9)


def test_tag_f1_equals_seqeval_on_parts_of_speech() -> None:
    from seqeval.metrics import f1_score

    draw = random.Random(5)
    names = ("NOUN", "VERB", "SYM", "INTJ", "X", "ADP")
    gold = [[draw.choice(names) for _ in range(9)] for _ in range(40)]
    found = [[tag if draw.random() < 0.7 else draw.choice(names) for tag in row] for row in gold]
    rows = [Example(str(i), {"tokens": ("w",) * 9}, tuple(tags)) for i, tags in enumerate(gold)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = 100 * f1_score(gold, found)
    assert evaluate(METRICS["tag_f1"], rows, found, "en")[0] == pytest.approx(wanted, abs=1e-9)
