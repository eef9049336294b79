"""Suites that are scored by an order or a degree: numbers of the official scripts, recorded or computed beside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import ndcg_score

from xling.core.errors import UserError
from xling.eval.kinds import nearest_neighbours
from xling.eval.kinds.base import KINDS, VectorQuestion
from xling.eval.metrics import METRICS, evaluate
from xling.eval.rows.suite import Example, data_digest, languages_at, load, suites
from xling.eval.scores import predictions
from xling.eval.scores.predictions import Origin, check_answers, evaluate_file

NAMES = [f"Q{i}" for i in range(40)]


def ranking(question: int) -> list[str]:
    """Forty candidates in an order of their own for each question."""
    return sorted(NAMES, key=lambda name: (int(name[1:]) * (question + 7) * 17) % 41)


def rows(answers: list[tuple[str, ...]]) -> list[Example]:
    asked = [
        Example(str(i), {"text": "t", "side": "src", "lang": "de"}, right) for i, right in enumerate(answers)
    ]
    return [*asked, *(Example(name, {"text": "t", "side": "tgt", "lang": "en"}, ()) for name in NAMES)]


def test_mewsli_x_is_scored_as_by_xtreme_r() -> None:
    """100 * third_party/utils_mewslix.evaluate(gold, predictions, k=20) of google-research/xtreme at 838c13b."""
    given = rows([(NAMES[(i * 11) % 40],) for i in range(60)])
    answers = [*(ranking(i)[:20] for i in range(60)), *([] for _ in NAMES)]
    assert evaluate(METRICS["map_at_20"], given, answers, "de")[0] == 11.212502603175976


def test_lareqa_is_scored_as_by_xtreme_r() -> None:
    """100 * the mean of third_party/utils_lareqa.average_precision_at_k(.., .., 20) at 838c13b, for 1 to 24 answers."""
    right = [
        tuple(dict.fromkeys(NAMES[(i * 11 + j * j * 3) % 40] for j in range(i % 24 + 1))) for i in range(60)
    ]
    answers = [*(ranking(i) for i in range(60)), *([] for _ in NAMES)]
    assert evaluate(METRICS["map_at_20"], rows(right), answers, "de")[0] == pytest.approx(
        17.306721465539848, abs=1e-12
    )


def test_a_candidate_named_twice_counts_once() -> None:
    answers = [["Q1", "Q1", "Q2"], *([] for _ in NAMES)]
    assert evaluate(METRICS["map_at_20"], rows([("Q2",)]), answers, "de")[0] == 50


LABELS = {
    "NC": ["foodanddrink", "sports", "news"],
    "QADSM": ["Good", "Bad"],
    "QAM": ["0", "1"],
    "WPR": list("01234"),
}
XGLUE = {
    # xglue_evaluate.py --prediction_dir p --ground_truth_dir g --tasks NC,QADSM,QAM,WPR --split dev
    # of microsoft/XGLUE at e417c4c, with the files that `xglue_line` and `xglue_answer` give
    ("NC", 0): 0.5555555555555556,
    ("QADSM", 0): 0.5,
    ("QAM", 0): 0.5,
    ("WPR", 0): 0.7648458722216803,
    ("WPR", 1): 0.8890123385747376,
    ("WPR", 2): 0.6293109735170399,
    ("WPR", 3): 0.9522244375767783,
    ("WPR", 4): 0.9555093055362722,
}


def xglue_line(task: str, i: int, k: int) -> str:
    label = LABELS[task][(i * i + 3 * i + k) % len(LABELS[task])]
    cells = [f"query {(i * i) // 40}", f"title {i}", f"body {i}", label]
    return "\t".join(cells[1:] if task == "QAM" else cells)


def xglue_answer(task: str, i: int, k: int) -> str:
    return LABELS[task][(i * i // 3 + k) % len(LABELS[task])]


@pytest.mark.parametrize(("task", "k"), XGLUE)
def test_xglue_is_scored_as_by_its_script(task: str, k: int, tmp_path: Path) -> None:
    suite = suites()[f"xglue_{task.lower()}"]
    lang = suite.languages[0]
    path = tmp_path / f"xglue_full_dataset/{task}/xglue.{task.lower()}.{lang}.dev"
    path.parent.mkdir(parents=True)
    path.write_text("".join(xglue_line(task, i, k) + "\n" for i in range(90)))
    given = load(suite, lang, "dev", tmp_path)
    answers = [xglue_answer(task, i, k) for i in range(90)]
    score, _ = evaluate(METRICS[suite.metric], given, answers, lang)
    assert score == pytest.approx(100 * XGLUE[task, k], abs=1e-12)
    assert given[1].fields["text_b"] == {"NC": "body 1", "QAM": "body 1"}.get(task, "title 1 body 1")


def test_xglue_s_rows_without_classes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "xglue_full_dataset/QAM/xglue.qam.de.test"
    path.parent.mkdir(parents=True)
    path.write_text("question\tpassage\n")
    with pytest.raises(
        UserError,
        match=r"no test rows in 'de': .*xglue.qam.de.test has no answers; fix: put a file with answers",
    ):
        load(suites()["xglue_qam"], "de", "test", tmp_path)


def test_ndcg_is_scikit_learn_s() -> None:
    rng = np.random.default_rng(5)
    for size in (2, 3, 7, 20):
        for _ in range(20):
            gold, found = rng.integers(0, 5, size), rng.integers(0, 5, size)
            given = [Example(str(i), {"document": "q"}, str(label)) for i, label in enumerate(gold)]
            mine = evaluate(METRICS["ndcg"], given, [str(label) for label in found], "de")[0]
            assert mine == pytest.approx(100 * ndcg_score([gold], [found]), abs=1e-11)


def test_queries_with_one_page_are_not_scored_by_ndcg() -> None:
    given = [Example("0", {"document": "a"}, "0"), *(Example(x, {"document": "b"}, x) for x in "12")]
    assert evaluate(METRICS["ndcg"], given, ["0", "1", "2"], "de")[0] == 100


@pytest.mark.parametrize(("name", "peer"), [("pearson", pearsonr), ("spearman", spearmanr)])
def test_correlations_are_scipy_s(name: str, peer: Any) -> None:
    rng = np.random.default_rng(7)
    for offset in (0.0, 1e4):
        gold = np.round(rng.uniform(0, 5, 300), 1)  # with ties
        found = gold + rng.normal(size=300) + offset
        given = [Example(str(i), {}, float(x)) for i, x in enumerate(gold)]
        for answers in (found, -found):
            mine = evaluate(METRICS[name], given, answers.tolist(), "en-de")[0]
            assert mine == pytest.approx(
                100 * peer(found if answers is found else -found, gold)[0], abs=1e-10
            )
        assert evaluate(METRICS[name], given, [offset] * 300, "en-de")[0] == 0, "one side does not vary"


def test_ranked_is_a_sort_of_all_scores_and_ties_keep_their_order() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(n, 6)).astype(np.float32) for n in (50, 33))
    b[7] = b[3]
    for distance in ("cosine", "margin", "csls"):
        best, scores = nearest_neighbours.ranked(a, b, distance, 5)
        nearest, highest = nearest_neighbours.best_rows(a, b, distance)
        assert (best[:, 0] == nearest).all() and (scores[:, 0] == highest).all()
        assert (np.diff(scores) <= 0).all()
        first = {name: i for i, name in enumerate(best[0].tolist())}
        assert len(first) == 5
        assert all(
            row.tolist().index(3) + 1 == row.tolist().index(7) for row in best if {3, 7} <= set(row.tolist())
        )
    assert nearest_neighbours.ranked(a, b[:3], "cosine", 5)[0].shape == (50, 3)


def test_the_scores_held_at_once_are_bounded() -> None:
    assert nearest_neighbours.block_rows(10) == nearest_neighbours.BLOCK_ROWS
    assert nearest_neighbours.block_rows(1_003_893) * 1_003_893 <= nearest_neighbours.BLOCK_SCORES
    assert nearest_neighbours.block_rows(10**12) == 1


def paragraph(lang: str) -> dict[str, Any]:
    first, second = f"{lang} one.", f" {lang} two."
    return {
        "context": first + second,
        "sentence_breaks": [[0, len(first)], [len(first), len(first + second)]],
        "qas": [
            {"id": "q1", "question": f"{lang} first?", "answers": [{"text": "one", "answer_start": 3}]},
            {"id": "q2", "question": f"{lang} none?", "answers": [{"text": "?", "answer_start": 999}]},
        ],
    }


def write_lareqa(data: Path) -> Path:
    (data / "lareqa/xquad-r").mkdir(parents=True)
    for lang in suites()["lareqa"].languages:
        record = {"data": [{"paragraphs": [paragraph(lang)]}]}
        (data / f"lareqa/xquad-r/{lang}.json").write_text(json.dumps(record))
    return data


def test_lareqa_asks_for_the_answers_of_every_language(tmp_path: Path) -> None:
    suite, data = suites()["lareqa"], write_lareqa(tmp_path)
    assert languages_at(suite, "test", data) == list(suite.languages)
    question, *candidates = load(suite, "de", "test", data)
    assert (question.id, question.fields["text"], question.fields["lang"]) == ("q1", "de first?", "de")
    assert question.label == tuple(f"{lang}_1_0" for lang in suite.languages)
    assert len(candidates) == 22, "q2, whose answer is in no sentence, is not asked"
    assert candidates[-1].fields == {"text": " zh two.", "side": "tgt", "lang": "zh"}


def test_a_lareqa_file_without_sentences_is_one_line(tmp_path: Path) -> None:
    data = write_lareqa(tmp_path)
    path = data / "lareqa/xquad-r/th.json"
    path.write_text(path.read_text().replace("sentence_breaks", "breaks"))
    with pytest.raises(UserError, match=r"th\.json: KeyError 'sentence_breaks'; valid: SQuAD's JSON"):
        load(suites()["lareqa"], "de", "test", data)


def embed(texts: Any, lang: str) -> np.ndarray:
    """A one for the language and a larger one for what is said, as an aligned encoder has it."""
    made = np.zeros((len(texts), 20), dtype=np.float32)
    for row, text in zip(made, texts, strict=True):
        assert text.split()[0] == lang, "each text is embedded in its own language"
        row[list(suites()["lareqa"].languages).index(lang)] = 1
        row[19 if "two" in text else 18] = 2
    return made


def test_answers_from_vectors_go_through_a_file_to_a_score(tmp_path: Path) -> None:
    suite, data = suites()["lareqa"], write_lareqa(tmp_path / "data")
    given = load(suite, "de", "test", data)
    found = KINDS["ranking"].answers_by_vectors(
        VectorQuestion(given, ("de", "de"), embed, "cosine", list, False)
    )
    assert found[0][0] == "de_1_0"
    assert set(found[0][:11]) == set(given[0].label)
    assert not any(found[1:])
    origin = Origin(
        "lareqa", "de", "test", "x", -1, "none", "none", "", rows=data_digest(suite, "de", "test", data)
    )
    predictions.write(tmp_path / "predictions", origin, given, found)
    (scored,) = evaluate_file(origin.path(tmp_path / "predictions"), data)
    assert scored.value == 100
    found[0] = ["fr_1_0"]
    with pytest.raises(UserError, match=r'row 0, id \'q1\': \["fr_1_0"\] is none of the candidates'):
        check_answers(Path("p"), suite, given, found)


def write_mewsli(data: Path, text: str = "A Ada. In Bo lives Cy.") -> Path:
    folder = data / "mewsli_x/output/dataset"
    folder.mkdir(parents=True)
    mention = {"example_id": "m1", "entity_id": "Q5", "mention_span": {"start": 10, "end": 12, "text": "Bo"}}
    spans = [{"start": 0, "end": 6}, {"start": 7, "end": 22}]
    article = {"document_id": "a1", "language": "de", "text": text, "sentence_spans": spans}
    record = {"context": article, "mentions": [mention]}
    other = {
        "context": article | {"language": "tr", "document_id": "a2"},
        "mentions": [mention | {"example_id": "m2"}],
    }
    lines = "".join(json.dumps(each) + "\n" for each in (record, other))
    (folder / "wikinews_mentions-test.jsonl").write_text(lines)
    entity = {
        "entity_id": "Q5", "title": "Bo", "description": "Bo is a town.  It is\nold. Cut.",
        "description_language": "fi",
        "sentence_spans": [{"start": 0, "end": 13}, {"start": 15, "end": 25}],
    }  # fmt: skip
    (folder / "candidate_set_entities.jsonl").write_text(json.dumps(entity) + "\n")
    return data


def test_mewsli_x_marks_the_name_in_its_sentence(tmp_path: Path) -> None:
    suite, data = suites()["mewslix"], write_mewsli(tmp_path)
    name, entity = load(suite, "de", "test", data)
    assert (name.id, name.fields["text"], name.label) == ("m1", "Bo: In { Bo } lives Cy.", ("Q5",))
    assert (entity.id, entity.fields["text"], entity.fields["lang"]) == (
        "Q5",
        "Bo is a town. It is old.",
        "fi",
    )
    assert [row.id for row in load(suite, "tr", "test", data)] == ["m2", "Q5"]
    with pytest.raises(UserError, match="'mewslix' has no test rows in 'fr'"):
        load(suite, "fr", "test", data)


def test_mewsli_x_without_its_articles_says_how_to_get_them(tmp_path: Path) -> None:
    data = write_mewsli(tmp_path, text="")
    with pytest.raises(UserError, match=r"wikinews_mentions-test\.jsonl:1: m1 has no text"):
        load(suites()["mewslix"], "de", "test", data)


def test_similarity_from_vectors_is_the_cosine() -> None:
    given = [
        Example("0", {"text_a": "x", "text_b": "y"}, 1.0),
        Example("1", {"text_a": "y", "text_b": "y"}, 5.0),
    ]
    vectors = {"x": [1.0, 0.0], "y": [3.0, 4.0]}
    question = VectorQuestion(
        given,
        ("en", "de"),
        lambda texts, _: np.array([vectors[t] for t in texts], dtype=np.float32),
        "margin",
        list,
        False,
    )
    assert KINDS["similarity"].answers_by_vectors(question) == pytest.approx([0.6, 1.0])


def test_a_rating_that_is_no_number_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "STS2017-extended/STS.en-de.txt"
    path.parent.mkdir()
    path.write_text("a\tb\t4.5\na\tb\n")
    with pytest.raises(UserError, match=r"STS\.en-de\.txt:2: .*two sentences and a number"):
        load(suites()["sts17"], "en-de", "test", tmp_path)
