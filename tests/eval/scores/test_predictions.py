"""Predictions on disk, scoring them again, and comparing runs."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from xling.core.errors import UserError
from xling.eval.rows.suite import Example, load, suites
from xling.eval.scores import predictions
from xling.eval.scores.predictions import Origin
from xling.eval.scores.score_file import Score

ORIGIN = Origin("toy_xnli", "sw", "test", "pretrained", 1, checkpoint="c" * 64, extra="fit:x")


def rows(world: Path) -> list[Example]:
    return load(suites()["toy_xnli"], "sw", "test", world)


def score_file(path: Path, data: Path) -> list[Score]:
    return [score for score, _ in predictions.read_row_statistics(path, data)]


def saved(world: Path, folder: Path, right: int, origin: Origin = ORIGIN) -> Path:
    gold = rows(world)
    answers = [r.label if i < right else "neutral" for i, r in enumerate(gold)]
    return predictions.write(folder, origin, gold, answers)


def test_round_trip_and_score(world: Path, tmp_path: Path) -> None:
    path = saved(world, tmp_path / "p", 12)
    assert predictions.read_origin(path) == ORIGIN
    assert predictions.read(path, rows(world)) == [r.label for r in rows(world)]
    (score,) = score_file(path, world)
    # Wilson: z = 1.96, 12 of 12: n / (n + z * z).
    assert (score.value, score.n, score.low, score.high) == (100.0, 12, pytest.approx(75.75, abs=0.01), 100.0)
    assert score.signature.startswith("accuracy:1|fit:x|data:")
    assert score.signature.endswith("|seed:1|checkpoint:cccccccccccc")
    assert score.synthetic
    assert predictions.files(tmp_path / "p") == [path]


@pytest.mark.parametrize(
    "answers", [["O", "B-PER"], [None, "ü"], [["alarm", ["O"]]], [3], ["", "a\nb\t\"'"], [1.5, None]]
)
def test_any_answer_survives_the_file(tmp_path: Path, answers: list[Any]) -> None:
    gold = [Example(str(i), {}, "") for i in range(len(answers))]
    path = predictions.write(tmp_path, ORIGIN, gold, answers)
    assert predictions.read(path, gold) == answers


def test_order_in_the_file_does_not_matter(world: Path, tmp_path: Path) -> None:
    path = saved(world, tmp_path, 12)
    meta = pl.read_parquet_metadata(path)
    facts = {k: meta[k] for k in ("format", "origin")}
    pl.read_parquet(path).reverse().write_parquet(path, metadata=facts)
    assert score_file(path, world)[0].value == 100


def test_statistics_of_translations_are_kept_and_not_mistaken(tmp_path: Path) -> None:
    (tmp_path / "mt").mkdir()
    (tmp_path / "mt/en-sw.test.en").write_text("Hello.\nBye.\n")
    (tmp_path / "mt/en-sw.test.sw").write_text("Habari za asubuhi rafiki.\nKwaheri ya kuonana rafiki.\n")
    gold = load(suites()["mt"], "en-sw", "test", tmp_path)
    origin = replace(ORIGIN, suite="mt", lang="en-sw")
    path = predictions.write(tmp_path / "p", origin, gold, [row.label for row in gold])
    first = score_file(path, tmp_path)
    kept = sorted((path.parent / ".stats").iterdir())
    assert len(kept) == 4
    assert score_file(path, tmp_path) == first
    for each in kept:  # the exponent of a statistic
        content = bytearray(each.read_bytes())
        content[128 + 7] ^= 1
        each.write_bytes(content)
    assert score_file(path, tmp_path) == first, "a turned bit is no statistic"
    assert first[0].value == pytest.approx(100)
    predictions.write(tmp_path / "p", origin, gold, ["x", "y"])
    assert score_file(path, tmp_path)[0].value < 1
    predictions.write(tmp_path / "p", origin, gold, [row.label for row in gold])
    (tmp_path / "mt/en-sw.test.sw").write_text("a\nb\n")
    assert score_file(path, tmp_path)[0].value < 1, "other rows, other statistics"
    assert predictions.files(tmp_path / "p") == [path]


def test_bad_prediction_files_are_named(world: Path, tmp_path: Path) -> None:
    gold = rows(world)
    path = predictions.write(tmp_path, ORIGIN, gold[:-1], ["neutral"] * 11)
    with pytest.raises(UserError, match=r"sw\.test\.parquet has 11 predictions; valid: 12"):
        score_file(path, world)
    other = [replace(gold[0], id="99"), *gold[1:]]
    predictions.write(tmp_path, ORIGIN, other, ["neutral"] * 12)
    with pytest.raises(UserError, match=r"sw\.test\.parquet has no prediction for id '0', row 0"):
        score_file(path, world)
    twice = [gold[1], *gold[1:]]
    predictions.write(tmp_path, ORIGIN, twice, ["neutral"] * 12)
    with pytest.raises(UserError, match=r"sw\.test\.parquet: id '1' is there twice"):
        score_file(path, world)
    with pytest.raises(UserError, match="3 predictions for toy_xnli/sw/test; valid: 12"):
        predictions.write(tmp_path, ORIGIN, gold, ["neutral"] * 3)
    with pytest.raises(UserError, match="no predictions at"):
        predictions.read_origin(tmp_path / "none.parquet")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(UserError, match="holds no predictions of xling"):
        predictions.read_origin(tmp_path / "other.parquet")
    (tmp_path / "text.parquet").write_text("no parquet at all")
    with pytest.raises(UserError, match="is not a Parquet file"):
        predictions.read_origin(tmp_path / "text.parquet")
    with pytest.raises(UserError, match="no predictions below"):
        predictions.files(world)


def test_rows_are_counted_before_they_are_read(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = predictions.write(tmp_path, ORIGIN, rows(world), ["neutral"] * 12)
    facts = {"format": predictions.FORMAT, "origin": json.dumps(asdict(ORIGIN))}
    pl.select(id=pl.repeat("0", 99_999), prediction=pl.repeat("1", 99_999)).write_parquet(
        path, metadata=facts
    )

    def unread(*_: object) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr(predictions, "read_rows", unread)
    with pytest.raises(UserError, match="has 99,999 predictions; valid: 12"):
        score_file(path, world)


def test_an_answer_that_is_too_long_or_damaged_is_named(world: Path, tmp_path: Path) -> None:
    examples = rows(world)
    facts = {"format": predictions.FORMAT, "origin": json.dumps(asdict(ORIGIN))}
    for bad, said in (('"' + "x" * (4 << 20) + '"', "more than 4,194,304 bytes"), (None, "is not JSON")):
        path = predictions.write(tmp_path, ORIGIN, examples, ["neutral"] * 12)
        answers = ['"neutral"'] * 11 + [bad]
        frame = pl.DataFrame({"id": [row.id for row in examples], "prediction": answers})
        frame.write_parquet(path, metadata=facts)
        with pytest.raises(UserError, match=said):
            score_file(path, world)


@pytest.mark.parametrize(
    ("suite", "fields", "label", "good", "bad"),
    [
        ("toy_xnli", {"text_a": "a", "text_b": "b"}, "neutral", "neutral", ["netural", None, 0, ["neutral"]]),
        ("toy_ner", {"tokens": ["a", "b"]}, ["O", "O"], ["I-PER", None], [["O"], ["O", "B-PET"], "OO", None]),
        ("xsid", {"tokens": ["a"]}, ["weather/find", ["O"]], ["alarm/set_alarm", ["B-x"]],
         ["weather/find", ["wether", ["O"]], ["weather/find", []], ["weather/find", [1]]]),
        ("xcopa", {"premise": "a", "question": "cause", "choices": ["b", "c"]}, 1, 0, ["0", None, 1.0, True, 2, -1]),
        ("mt", {"text": "a"}, "b", "", [None, 3, ["b"]]),
        ("bucc", {"text": "a", "side": "src"}, ["x"], [], ["x", [1], None]),
    ],
)  # fmt: skip
def test_answers_of_another_shape_are_named(
    tmp_path: Path, suite: str, fields: Any, label: Any, good: Any, bad: list[Any]
) -> None:
    lang = "en-sw" if suite == "mt" else "xx"
    rows_file = tmp_path / f"rows/{suite}/{lang}.test.jsonl"
    rows_file.parent.mkdir(parents=True)
    rows_file.write_text(
        "".join(json.dumps({"id": str(i), "fields": fields, "label": label}) + "\n" for i in range(2))
    )
    gold = load(suites()[suite], lang, "test", tmp_path)
    origin = replace(ORIGIN, suite=suite, lang=lang)
    path = predictions.write(tmp_path / "p", origin, gold, [good, good])
    assert score_file(path, tmp_path)
    for answer in bad:
        predictions.write(tmp_path / "p", origin, gold, [good, answer])
        with pytest.raises(
            UserError, match=r"\.test\.parquet: row 1, id '1': .* is not an answer to a row of"
        ):
            score_file(path, tmp_path)


@pytest.mark.parametrize(
    ("suite", "rows", "good", "bad"),
    [
        ("tatoeba", [({"text_a": "a", "text_b": "b"}, 0), ({"text_a": "c", "text_b": "d"}, 1)], [1, 0], [2, -1]),
        ("bucc", [({"text": "a", "side": "src"}, ["1"]), ({"text": "b", "side": "tgt"}, [])], [["1"], []],
         [["0"], ["1", "x"]]),
    ],
)  # fmt: skip
def test_an_answer_outside_of_the_candidates_is_named(
    tmp_path: Path, suite: str, rows: Any, good: list[Any], bad: list[Any]
) -> None:
    file = tmp_path / f"rows/{suite}/de.test.jsonl"
    file.parent.mkdir(parents=True)
    lines = [{"id": str(i), "fields": fields, "label": label} for i, (fields, label) in enumerate(rows)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    gold = load(suites()[suite], "de", "test", tmp_path)
    origin = replace(ORIGIN, suite=suite, lang="de")
    assert score_file(predictions.write(tmp_path / "p", origin, gold, good), tmp_path)
    for answer in bad:
        path = predictions.write(tmp_path / "p", origin, gold, [answer, good[1]])
        with pytest.raises(
            UserError, match=r"de\.test\.parquet: row 0, id '0': .* none of the candidates of the 2"
        ):
            score_file(path, tmp_path)


def test_a_word_of_neither_dictionary_is_no_candidate(tmp_path: Path) -> None:
    suite, folder = suites()["bli"], tmp_path / "rows/bli"
    folder.mkdir(parents=True)
    for split, pair in (("train", ["dog", "Hund"]), ("test", ["cat", "Katze"])):
        row = {"id": pair[0], "fields": {"word": pair[0]}, "label": [pair[1]]}
        (folder / f"en-de.{split}.jsonl").write_text(json.dumps(row) + "\n")
    gold = load(suite, "en-de", "test", tmp_path)
    origin = replace(ORIGIN, suite="bli", lang="en-de")
    for word in ("Katze", "Hund"):
        score_file(predictions.write(tmp_path / "p", origin, gold, [word]), tmp_path)
    path = predictions.write(tmp_path / "p", origin, gold, ["Kat"])
    with pytest.raises(UserError, match="row 0, id 'cat': \"Kat\" is none of the candidates"):
        score_file(path, tmp_path)
    (folder / "en-de.train.jsonl").unlink()
    assert score_file(path, tmp_path), "without the other dictionary nobody knows"


@pytest.mark.parametrize("text", ['"neutral', "1, 2", "", "[" * 100_000, None])
def test_corrupt_json_names_file_and_row(world: Path, tmp_path: Path, text: str | None) -> None:
    path = saved(world, tmp_path / "p", 12)
    facts = {k: v for k, v in pl.read_parquet_metadata(path).items() if k in ("format", "origin")}
    frame = pl.read_parquet(path)
    answers = frame["prediction"].to_list()
    answers[4] = text
    frame.with_columns(pl.Series("prediction", answers)).write_parquet(path, metadata=facts)
    with pytest.raises(UserError, match=r"sw\.test\.parquet: row 4, id '4': .* is not JSON"):
        score_file(path, world)
    frame.drop("prediction").write_parquet(path, metadata=facts)
    with pytest.raises(UserError, match=r"sw\.test\.parquet cannot be read: .*; valid: columns id and"):
        score_file(path, world)
    for origin in ("{", '{"suite": "toy_xnli"}', '{"a": 1}'):
        frame.write_parquet(path, metadata={**facts, "origin": origin})
        with pytest.raises(UserError, match=r"sw\.test\.parquet: its origin cannot be read"):
            score_file(path, world)


def test_changed_answers_are_refused_and_another_order_is_not(world: Path, tmp_path: Path) -> None:
    path = saved(world, tmp_path / "p", 12)
    facts = {k: v for k, v in pl.read_parquet_metadata(path).items() if k != "ARROW:schema"}
    frame = pl.read_parquet(path)
    frame.reverse().write_parquet(path, metadata=facts)
    assert score_file(path, world)[0].value == 100
    answers = frame["prediction"].to_list()
    answers[3], answers[4] = answers[4], answers[3]
    frame.with_columns(pl.Series("prediction", answers)).write_parquet(path, metadata=facts)
    with pytest.raises(UserError, match=r"sw\.test\.parquet: the answers were changed after they were"):
        score_file(path, world)
    facts.pop("answers")  # as files were written before
    frame.write_parquet(path, metadata=facts)
    assert score_file(path, world)[0].value == 100


def test_any_turned_bit_of_a_prediction_file_changes_nothing_or_is_told(world: Path, tmp_path: Path) -> None:
    path = saved(world, tmp_path, 12)
    whole, score, origin = (
        path.read_bytes(),
        score_file(path, world),
        predictions.read_origin(path),
    )
    for place in range(5, len(whole), 7):
        content = bytearray(whole)
        content[place] ^= 1 << place % 8
        path.write_bytes(content)
        try:
            assert predictions.read_origin(path) == origin
            assert score_file(path, world) == score
        except UserError as error:
            assert path.name in str(error)  # noqa: PT017 - it need not be raised
