"""Own labelled files from the command line to a table, a fine-tuned model and its answers."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

import xling
from xling import cli
from xling.core.errors import UserError
from xling.eval.rows.suite import OWN_SUITES
from xling.eval.run.predict import words_of

WORDS = ["goal match team ball", "vote law party court"]
FIT = ["fit.epochs=1", "fit.batch_rows=8", "fit.max_length=32"]


@pytest.fixture
def topics(tmp_path: Path) -> list[str]:
    """Words of a command that names topics in English and Swahili, with numbers as labels."""
    train = "".join(f"{WORDS[i % 2]} {i}\t{i % 2 + 1}\n" for i in range(20))
    (tmp_path / "train.tsv").write_text(train)
    test = "".join(f"{i};{WORDS[i % 2]};{i % 2 + 1}\n" for i in range(10))
    (tmp_path / "test_sw.csv").write_text("id;tweet;topic\n" + test, encoding="utf-8-sig")
    return [f"classes={tmp_path / 'test_sw.csv'}", f"train={tmp_path / 'train.tsv'}"]


def scores(folder: Path) -> dict[tuple[str, str], float]:
    rows = json.loads((folder / "tables/scores.json").read_text())["scores"]
    return {(row["system"], row["lang"]): row["value"] for row in rows}


def test_own_files_have_controls_intervals_and_every_later_command(
    tmp_path: Path, topics: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XLING_DATA", raising=False)
    run = tmp_path / "run"
    assert cli.main(["eval", *topics, "systems=majority,ngram", f"out={run}"]) == 0
    assert scores(run) == {("majority", "sw"): 50.0, ("ngram", "sw"): 100.0}
    assert "my_classes (accuracy)" in capsys.readouterr().out
    OWN_SUITES.clear()
    for command in (
        ["eval", "rescore", str(run)],
        ["report", str(run), f"out={tmp_path / 'report'}"],
    ):
        assert cli.main(command) == 0, capsys.readouterr().err
    assert "vote law party court" in (tmp_path / "report/report.md").read_text() + capsys.readouterr().out


def test_a_refused_evaluation_leaves_nothing(
    tmp_path: Path, topics: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert cli.main(["eval", *topics, "systems=majority", "seeds=1", f"out={run}"]) == 2
    assert "seeds=1 changes nothing" in capsys.readouterr().err
    assert not run.exists()


def test_a_kind_may_stand_in_place_of_a_suite(tmp_path: Path, topics: list[str]) -> None:
    words = [
        topics[1],
        topics[0].replace("classes=", "test.sw="),
        "systems=majority",
        f"out={tmp_path / 'run'}",
    ]
    assert cli.main(["eval", "classes", *words]) == 0
    assert scores(tmp_path / "run") == {("majority", "sw"): 50.0}


def test_another_reading_of_the_same_file_is_predicted_again(tmp_path: Path) -> None:
    for split in ("train", "test"):
        rows = [f"{'ab'[i % 2]} text {i}\t{i % 2}\t{i % 3 // 2}\n" for i in range(12)]
        (tmp_path / f"{split}.tsv").write_text("text\tone\ttwo\n" + "".join(rows))
    values = []
    for label in ("one", "two"):
        words = [
            f"classes={tmp_path / 'test.tsv'}",
            f"train={tmp_path / 'train.tsv'}",
            f"columns.label={label}",
        ]
        assert cli.main(["eval", *words, "systems=majority", f"out={tmp_path / 'run'}"]) == 0
        values.append(scores(tmp_path / "run")["majority", "en"])
    assert values == [50.0, pytest.approx(100 * 8 / 12)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["xnli"], "a suite or own files"),
        (["mt"], "a suite or own files"),
        (["class"], "own files, whose kind is one of classes, mt, pairs, retrieval, tags; fix: leave"),
        ([__file__], "what has each row of"),
        (["pairs", __file__], f"fix: pairs={__file__}"),
        (["tags=x.conll"], "one of classes=FILES"),
        (["train.de=y.tsv"], "one of them"),
        (["columns.tag=2"], "unknown column"),
        (["scheme=BIO"], "tags=FILES beside it"),
        (["test.sw=nowhere.tsv"], "no such file"),
    ],
)
def test_settings_that_do_not_go_together(
    tmp_path: Path, topics: list[str], words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["eval", *words, *topics, "systems=majority", f"out={tmp_path / 'run'}"]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_wrong_label_is_told_before_any_training(
    tmp_path: Path, topics: list[str], model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*topics, "labels=1,3", f"checkpoint={model}", f"out={tmp_path / 'run'}"]
    assert cli.main(["eval", *words]) == 2
    assert "train.tsv:2: unknown label '2'" in capsys.readouterr().err


def test_published_suites_read_all_target_files_before_training(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, tag in (("en.train", "PER"), ("en.test", "PER"), ("de.test", "DATE")):
        path = tmp_path / f"ner/{name}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"Amina\tB-PER\ngoes\tO\n\nIt\tO\nis\tO\nMonday\tB-{tag}\n")
    words = ["toy_ner", f"data={tmp_path}", f"checkpoint={model}", f"out={tmp_path / 'run'}", *FIT]
    assert cli.main(["eval", *words]) == 2
    said = capsys.readouterr().err
    assert "de.test.tsv:6: unknown label 'DATE'" in said
    assert "updates" not in said


def test_a_model_of_own_files_is_scored_and_labels_texts(
    tmp_path: Path, topics: list[str], model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned = tmp_path / "tuned"
    train = topics[1].partition("=")[2]
    assert cli.main(["finetune", f"classes={train}", f"checkpoint={model}", f"out={tuned}", *FIT]) == 0
    words = [topics[0], f"checkpoint={tuned}", "systems=pretrained", f"out={tmp_path / 'run'}"]
    assert cli.main(["eval", *words]) == 0
    assert list(scores(tmp_path / "run")) == [("pretrained", "sw")]
    assert "was trained on" not in capsys.readouterr().err
    words[0] = f"classes={shutil.copy(train, tmp_path / 'asked.test.tsv')}"
    assert cli.main(["eval", *words[:-1], f"out={tmp_path / 'leak'}"]) == 0
    assert (
        f"{tuned} was trained on {tmp_path / 'asked.test.tsv'}, which is scored here"
        in capsys.readouterr().err
    )
    (tmp_path / "texts.txt").write_text("a goal\n\na vote\n")
    assert cli.main(["predict", str(tuned), str(tmp_path / "texts.txt"), "lang=sw"]) == 0
    said = capsys.readouterr()
    assert "texts.txt: 2 rows, read as Swahili (lang=sw); a text a line" in said.err
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert [(row["line"], row["text"]) for row in rows] == [(1, "a goal"), (3, "a vote")]
    assert {row["label"] for row in rows} <= {"1", "2"}
    opened = xling.load(tuned)
    assert opened.predict(["a goal", "a vote"], lang="sw") == [row["label"] for row in rows]
    out = tmp_path / "answers.jsonl"
    assert cli.main(["predict", str(tuned), topics[0].partition("=")[2], f"out={out}"]) == 0
    assert [json.loads(line)["line"] for line in out.read_text().splitlines()] == list(range(2, 12))
    (tmp_path / "texts.txt").write_text('=1+1 goal\na "vote", now\n')
    words = ["predict", str(tuned), str(tmp_path / "texts.txt"), "lang=sw"]
    assert cli.main([*words, f"out={tmp_path / 'a.csv'}"]) == 0
    labels = opened.predict(["=1+1 goal", 'a "vote", now'], lang="sw")
    assert [*csv.reader((tmp_path / "a.csv").read_text("utf-8-sig").splitlines())] == [
        ["line", "text", "label"], ["1", "'=1+1 goal", labels[0]], ["2", 'a "vote", now', labels[1]],
    ]  # fmt: skip
    capsys.readouterr()
    assert cli.main([*words, f"out={tmp_path / 'a.xlsx'}"]) == 2
    assert f"valid: JSON lines or CSV; fix: out={tmp_path / 'a.csv'}" in capsys.readouterr().err
    with pytest.raises(UserError, match="one string"):
        opened.predict("a goal")
    assert cli.main(["predict", str(model), str(tmp_path / "texts.txt")]) == 2
    assert "is not fine-tuned" in capsys.readouterr().err


def test_a_kind_may_stand_in_place_of_a_suite_to_train_on(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words.conll").write_text("Amina B-PER\nanaishi O\n\n" * 8)
    for name, more in (("tuned", []), ("named", ["name=watu"])):
        words = ["tags", f"train.sw={tmp_path / 'words.conll'}", *more, f"checkpoint={model}"]
        assert cli.main(["finetune", *words, f"out={tmp_path / name}", *FIT]) == 0
    assert "train rows in sw" in capsys.readouterr().err


def test_a_label_that_the_model_has_not_learned_is_named(
    tmp_path: Path, topics: list[str], model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = topics[1].partition("=")[2]
    tuned = xling.load(model).finetune(tmp_path / "tuned", classes=train, fit={"epochs": 1, "max_length": 32})
    (tmp_path / "new.tsv").write_text("text\tlabel\na\t1\nb\t3\n")
    words = [f"classes={tmp_path / 'new.tsv'}", f"checkpoint={tuned.path}", "systems=pretrained"]
    assert cli.main(["eval", *words, f"out={tmp_path / 'run'}"]) == 2
    assert "new.tsv:3: unknown label '3'; valid: the model's: 1, 2" in capsys.readouterr().err


def test_tags_and_pairs_have_answers_in_the_form_of_their_rows(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = "Amina B-PER\nMwangi E-PER\nlives O\nhere O\n"
    (tmp_path / "en.train.conll").write_text("\n".join([sentence] * 8))
    rows = "".join(f"{WORDS[i % 2]}\t{WORDS[0]}\t{'different' if i % 2 else 'same'}\n" for i in range(12))
    (tmp_path / "pairs.tsv").write_text("premise\thypothesis\tlabel\n" + rows)
    fit = {"epochs": 1, "max_length": 32}
    tagger = xling.load(model).finetune(tmp_path / "tagger", tags=tmp_path / "en.train.conll", fit=fit)
    quantized = tmp_path / "quantized"
    assert cli.main(["quantize", f"checkpoint={tagger.path}", f"out={quantized}"]) == 0
    words, split = tagger.predict([["Amina", "Mwangi"], "Amina (Mwangi)!"], lang="sw")
    assert [word for word, _ in words] == ["Amina", "Mwangi"]
    assert [word for word, _ in split] == ["Amina", "(", "Mwangi", ")", "!"]
    assert {tag for _, tag in [*words, *split]} <= {"O", "B-PER", "I-PER", "E-PER", "S-PER"}
    wanted = {"Amina": "B-PER", "Mwangi": "I-PER"}  # what the model's own labels say, as IOB2
    monkeypatch.setattr(
        "xling.transfer.tune.TunedModel.predict",
        lambda self, rows, lang: [tuple(wanted.get(w, "O") for w in row.fields["tokens"]) for row in rows],
    )
    for folder in (tagger.path, quantized):
        (words,) = xling.load(folder).predict([["Amina", "Mwangi", "lives"]], lang="sw")
        assert [tag for _, tag in words] == ["B-PER", "E-PER", "O"]
    monkeypatch.undo()
    (tmp_path / "wikiann.txt").write_text("sw:Amina\nsw:lives\n\nsw:Mwangi\nsw:here\n")
    out = tmp_path / "answers.jsonl"
    assert cli.main(["predict", str(tagger.path), str(tmp_path / "wikiann.txt"), f"out={out}"]) == 0
    assert [json.loads(line)["tokens"] for line in out.read_text("utf-8").splitlines()] == [
        ["Amina", "lives"],
        ["Mwangi", "here"],
    ]
    out = tmp_path / "answers.csv"
    assert cli.main(["predict", str(tagger.path), str(tmp_path / "wikiann.txt"), f"out={out}"]) == 0
    assert out.read_bytes().startswith(b"\xef\xbb\xbf")  # Excel knows UTF-8 by it
    assert [row[1] for row in csv.reader(out.read_text("utf-8").splitlines())] == [
        "tokens",
        "Amina lives",
        "Mwangi here",
    ]
    pairs = xling.load(model).finetune(tmp_path / "pairs", pairs=tmp_path / "pairs.tsv", fit=fit)
    assert set(pairs.predict([("a", "b"), {"text_a": "c", "text_b": "d"}])) <= {"same", "different"}
    for wrong in (["a"], [("a", "")], [{"text_a": "x"}]):
        with pytest.raises(UserError, match="text_a, text_b"):
            pairs.predict(wrong)


def test_questions_are_answered_from_their_passages(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    passages = [f"Amina sells {goods} in {town}." for goods in ("fish", "tea") for town in ("Lamu", "Goma")]
    rows = [
        {
            "id": str(i),
            "fields": {"context": text, "question": "Where?"},
            "label": [[text[-5:-1], len(text) - 5]],
        }
        for i, text in enumerate(passages)
    ]
    for split in ("train", "dev"):
        path = tmp_path / f"rows/squad/en.{split}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    tuned, asked = tmp_path / "tuned", tmp_path / "asked.tsv"
    words = ["squad", f"data={tmp_path}", f"checkpoint={model}", f"out={tuned}", *FIT]
    assert cli.main(["finetune", *words]) == 0
    asked.write_text(f"passage\tquestion\n{passages[0]}\tWhere?\n\n{passages[3]}\tWhat?\n")
    capsys.readouterr()
    assert cli.main(["predict", str(tuned), str(asked), "lang=sw"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(a["line"], a["context"], a["question"]) for a in answers] == [
        (2, passages[0], "Where?"),
        (4, passages[3], "What?"),
    ]
    assert all(a["answer"] in a["context"] for a in answers)
    opened = xling.load(tuned)
    assert opened.predict([(passages[0], "Where?")], lang="sw") == [answers[0]["answer"]]
    asked.write_text(json.dumps({"context": passages[0]}))
    assert cli.main(["predict", str(tuned), str(asked)]) == 2
    assert "question" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("«Amina», (said) no...", ["«", "Amina", "»", ",", "(", "said", ")", "no", ".", ".", "."]),
        ("हिन्दी भाषा।", ["हिन्दी", "भाषा", "।"]),
        ("don't 10,000 -", ["don't", "10,000", "-"]),
    ],
)
def test_words_of_running_text(text: str, words: list[str]) -> None:
    assert words_of(text) == words
