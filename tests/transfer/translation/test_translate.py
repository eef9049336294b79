"""The filter and the training of translation models, on the tiny corpus."""

from __future__ import annotations

import io
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from xling import cli
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.corpora.binarize import BinarizeConfig
from xling.corpora.binarize import run as binarize
from xling.models.files import model_weights
from xling.models.generate.settings import Search
from xling.training import train
from xling.transfer import plans
from xling.transfer.translation import back_translate, supervised
from xling.transfer.translation.back_translate import BackTranslateConfig
from xling.transfer.translation.translate import Translator, split_points

SHAPE = (
    "model.layers=1", "model.dim=48", "model.heads=2", "model.ffn_dim=96", "model.max_positions=64",
    "model.precision=fp32", "model.dropout=0", "tokens_per_sample=64",
)  # fmt: skip
# Enough to learn 40 sentences by heart.
SCHEDULE = (
    "train.updates=210", "train.batch_tokens=1500", "train.lr=6e-3", "train.warmup=20", "train.log_every=50",
    "train.valid_every=140", "train.save_every=140", "label_smoothing=0.1",
)  # fmt: skip


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line]


@pytest.fixture(scope="module")
def pairs(corpus: Path, vocab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of en-ar alone, without monolingual text, and the two sides as files."""
    folder = tmp_path_factory.mktemp("pairs")
    sides = [lines(corpus / f"{lang}.txt") for lang in ("en", "ar")]
    for lang, side in zip(("en", "ar"), sides, strict=True):
        (folder / lang).write_text("".join(f"{line}\n" for line in side[:40]), encoding="utf-8")
    files = {"en-ar": (f"{folder}/en", f"{folder}/ar")}
    binarize(BinarizeConfig(vocab=str(vocab), out=str(folder / "shards"), pairs=files, valid_docs=2))
    return folder


@pytest.fixture(scope="module")
def trained(pairs: Path) -> Path:
    """A translation model of both directions, scored on what it was trained on."""
    words = [f"data={pairs}/shards", f"out={pairs}/mt", *SHAPE, *SCHEDULE]
    tests = [f"test.en-ar={pairs}/en,{pairs}/ar", f"test.ar-en={pairs}/ar,{pairs}/en"]
    supervised.run(config.load(supervised.MtConfig, overrides=[*words, *tests]))
    return pairs / "mt"


def test_it_learns_both_directions_and_scores_them_with_a_signature(trained: Path, pairs: Path) -> None:
    scores = json.loads((trained / "scores.json").read_text())
    assert set(scores) == {"en-ar", "ar-en"}
    for found in scores.values():
        assert found["bleu"] > 80, scores
        assert "tok:13a" in found["signature"] and "version:" in found["signature"]
    assert len(lines(trained / "test.en-ar.txt")) == 40
    assert manifest.read(trained).counts["langs"] == ["ar", "en"]
    assert not (pairs / "mt.train").exists()


def test_a_rerun_does_nothing_and_a_killed_scoring_does_not_train_again(
    trained: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (trained / "model.pt").stat().st_mtime_ns
    cfg = config.from_dict(supervised.MtConfig, manifest.read(trained).config, "test")
    supervised.run(cfg)
    assert (trained / "model.pt").stat().st_mtime_ns == before
    other = config.load(
        supervised.MtConfig,
        overrides=[f"data={pairs}/shards", f"out={pairs}/killed", *SHAPE, *SCHEDULE, "train.updates=2",
                   "train.valid_every=2", "train.save_every=2", f"test.en-ar={pairs}/en,{pairs}/ar"],
    )  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(supervised, "score_test_set", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            supervised.run(other)
    assert not (pairs / "killed").exists()
    stamp = (pairs / "killed.train" / "model.pt").stat().st_mtime_ns
    seen: list[int] = []
    original = supervised.score_test_set

    def score(*given_: Any) -> Any:
        seen.append((pairs / "killed.train" / "model.pt").stat().st_mtime_ns)
        return original(*given_)

    monkeypatch.setattr(supervised, "score_test_set", score)
    supervised.run(other)
    assert seen == [stamp]


def test_it_starts_from_a_checkpoint_with_its_shape_and_languages(
    trained: Path, model: Path, pairs: Path, tmp_path: Path
) -> None:
    few = [
        "train.updates=2",
        "train.warmup=1",
        "train.valid_every=2",
        "train.save_every=2",
        "train.batch_tokens=512",
    ]
    words = [
        f"data={pairs}/shards",
        f"out={tmp_path}/tuned",
        *few,
        "tokens_per_sample=48",
        "train.lr=1e-9",
        "model.precision=fp32",
    ]
    supervised.run(
        config.load(supervised.MtConfig, overrides=[*words, f"checkpoint={trained}", "directions=ar-en"])
    )
    before, after = (
        model_weights.load_seq2seq(path)[0].state_dict() for path in (trained, tmp_path / "tuned")
    )
    for name, weight in before.items():
        torch.testing.assert_close(after[name], weight, atol=1e-6, rtol=1e-4)
    with pytest.raises(UserError, match=r"model.dim=64 with .*, a model with 48; fix: leave it out"):
        plans.plan_mt(
            config.load(supervised.MtConfig, overrides=[*words, f"checkpoint={trained}", "model.dim=64"]),
            tmp_path,
        )
    words[1] = f"out={tmp_path}/both"
    supervised.run(
        config.load(supervised.MtConfig, overrides=[*words, f"checkpoint={model}", "model.decoder_layers=1"])
    )
    both, symbols = model_weights.load_seq2seq(tmp_path / "both")
    assert symbols.langs == ("ar", "en", "th") and len(both.decoder.layers) == 1
    old = model_weights.load_model(model)[0]
    torch.testing.assert_close(
        both.decoder.layers[0].up.weight, old.encoder.layers[0].up.weight, atol=1e-6, rtol=1e-4
    )


def test_back_translated_text_has_its_share_and_its_direction(
    pairs: Path, vocab: Path, tmp_path: Path
) -> None:
    made = BinarizeConfig(
        vocab=str(vocab),
        out=str(tmp_path / "back"),
        pairs={"ar-en": (f"{pairs}/ar", f"{pairs}/en")},
        valid_docs=2,
    )
    binarize(made)
    cfg = config.load(
        supervised.MtConfig,
        overrides=[
            f"data={pairs}/shards",
            "out=unused",
            *SHAPE,
            f"back_translated={tmp_path}/back",
            "back_share=.25",
        ],
    )
    from xling.training.assemble import build_trainer

    _, task = build_trainer(plans.plan_mt(cfg, tmp_path / "unused"), tmp_path)
    task.load_dataset("train")
    dataset = task.dataset("train")
    names = list(dataset._sides)
    assert names == ["en-ar", "back-translated ar-en"]
    back = dataset.window(0).draw.langs == 1
    assert dataset.sizes[back].sum() / dataset.sizes.sum() == pytest.approx(0.25, abs=0.02)
    ar, en = task.langs.index("ar"), task.langs.index("en")
    seen = {(int(dataset[i]["langs"][0]), int(dataset[i]["prev_langs"][0])) for i in back.nonzero()[0]}
    assert seen == {(ar, en)}
    task.load_dataset("valid")
    assert list(task.dataset("valid")._sides) == ["en-ar"]


def test_other_back_translations_make_another_model(
    pairs: Path, vocab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    words = [f"data={pairs}/shards", f"out={tmp_path}/mt", *SHAPE, f"back_translated={tmp_path}/back"]
    cfg = plans.plan_mt(config.load(supervised.MtConfig, overrides=words), tmp_path / "model")
    cfg = replace(cfg, train=replace(cfg.train, updates=2, valid_every=2, warmup=1))
    seen = []
    for sides in (("ar", "en"), ("en", "en")):
        shutil.rmtree(tmp_path / "back", ignore_errors=True)
        files = {"ar-en": tuple(f"{pairs}/{side}" for side in sides)}
        binarize(BinarizeConfig(vocab=str(vocab), out=str(tmp_path / "back"), pairs=files, valid_docs=2))
        made = train.run(cfg)
        assert isinstance(made, manifest.Manifest)
        seen.append((made.inputs[str(tmp_path / "back")], made.counts["mixture"]["back-translated ar-en"]))
    assert seen[0][0] != seen[1][0] and seen[0][1] != seen[1][1]


def test_a_directory_without_back_translations_is_refused(pairs: Path, vocab: Path, tmp_path: Path) -> None:
    files = {"en": (f"{pairs}/en",)}
    binarize(BinarizeConfig(vocab=str(vocab), out=str(tmp_path / "mono"), corpora=files))
    words = [f"data={pairs}/shards", f"out={tmp_path}/mt", *SHAPE, f"back_translated={tmp_path}/mono"]
    with pytest.raises(UserError, match="no parallel shards in back_translated="):
        train.run(plans.plan_mt(config.load(supervised.MtConfig, overrides=words), tmp_path / "model"))


def test_a_tag_marks_the_back_translated_sources_alone(pairs: Path, vocab: Path, tmp_path: Path) -> None:
    back = {"ar-en": (f"{pairs}/ar", f"{pairs}/en")}
    binarize(BinarizeConfig(vocab=str(vocab), out=str(tmp_path / "back"), pairs=back, valid_docs=2))
    from xling.training.assemble import build_trainer

    for data, share, kinds in ((pairs / "shards", 0.5, {0, 1}), (tmp_path / "back", 1.0, {0})):
        words = [f"data={data}", "out=unused", *SHAPE, f"back_translated={tmp_path}/back", "tag=true"]
        cfg = config.load(
            supervised.MtConfig, overrides=[*words, f"back_share={share}", "tokens_per_sample=12"]
        )
        _, task = build_trainer(plans.plan_mt(cfg, tmp_path / "unused"), tmp_path)
        task.load_dataset("train")
        dataset = task.dataset("train")
        last = len(task.dictionary) - 1  # behind the pieces stand the mask, the languages and the sentinels
        assert set(dataset.window(0).draw.langs.tolist()) == kinds
        for index, kind in enumerate(dataset.window(0).draw.langs):
            made = dataset[index]
            assert (made["tokens"][0] == last) == (kind == 1 or share == 1)
            assert last not in made["tokens"][1:] and last not in made["prev_tokens"]
            assert dataset.sizes[index] == len(made["tokens"]) + len(made["prev_tokens"])
            assert max(len(made["tokens"]), len(made["prev_tokens"])) <= 12


def back_translation(trained: Path, pairs: Path, out: Path, *words: str) -> BackTranslateConfig:
    given_ = [f"checkpoint={trained}", f"text={pairs}/gaps", "src=en", "tgt=ar", f"out={out}"]
    return config.load(BackTranslateConfig, overrides=[*given_, *words])


def test_back_translation_in_parts_is_that_of_the_whole_text(
    trained: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = lines(pairs / "en")[:9]
    returned = text[0].replace(" ", "\r", 1)  # inside of a line, it ends none
    given = "\n".join([returned, *text[1:4], "", "  ", *text[4:]]) + "\n"
    (pairs / "gaps").write_bytes(given.encode())
    whole, cut = (
        back_translation(trained, pairs, tmp_path / name, f"part_lines={size}")
        for name, size in (("whole", 100), ("cut", 4))
    )
    assert [phase.num_parts for phase in back_translate.phases(cut)] == [3, 1]
    with pytest.raises(UserError, match=r"0 parts of .* exist"):
        back_translate.run_part(cut, "publish", 0)
    run_local("back-translate", whole)
    run_local("back-translate", cut)
    expected = Translator(trained, Search(beam=1))(text, "en", "ar")
    assert lines(tmp_path / "whole/train.en") == text and lines(tmp_path / "whole/train.ar") == expected
    for name in ("train.en", "train.ar"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    counts = manifest.read(tmp_path / "cut").counts
    assert counts == {"pairs": 9, "empty_translations": 0, "copies": 0}
    assert not list(tmp_path.glob(".*.work"))
    monkeypatch.setattr(back_translate, "Translator", None)  # nothing is translated again
    run_local("back-translate", cut)


def test_a_part_that_is_there_is_not_translated_again_and_empty_translations_are_dropped(
    trained: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pairs / "gaps").write_text("".join(f"{line}\n" for line in lines(pairs / "en")[:4]), encoding="utf-8")
    cfg = back_translation(trained, pairs, tmp_path / "out", "part_lines=2")
    asked: list[list[str]] = []

    class Fake(Translator):
        def __call__(self, texts: Any, src: str, tgt: str, told: Any = None, via: str = "") -> list[str]:
            asked.append(list(texts))
            return ["", texts[1]]

    monkeypatch.setattr(back_translate, "Translator", Fake)
    back_translate.run_part(cfg, "translate", 1)
    run_local("back-translate", cfg)
    text = lines(pairs / "en")[:4]
    assert asked == [text[2:], text[:2]]
    assert lines(tmp_path / "out/train.en") == lines(tmp_path / "out/train.ar") == [text[1], text[3]]
    assert manifest.read(tmp_path / "out").counts == {"pairs": 2, "empty_translations": 2, "copies": 2}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tgt=en"], "two different languages"),
        (["part_lines=0"], "part_lines=0; valid: a whole number from 1"),
        (["tgt=sw"], "was not trained on 'sw'"),
        (["text=none"], "none"),
    ],
)
def test_a_wrong_back_translation_is_a_user_error(
    trained: Path, pairs: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    (pairs / "gaps").write_text("a\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        run_local("back-translate", back_translation(trained, pairs, tmp_path / "out", *words))
    assert not (tmp_path / "out").exists()


def test_a_pivot_is_two_translations(trained: Path, pairs: Path) -> None:
    translator, text = Translator(trained, Search(beam=1)), lines(pairs / "en")[:3]
    there = translator(text, "en", "ar")
    assert translator(text, "en", "en", via="ar") == translator(there, "ar", "en") != there


class Stream:
    """Standard input or output of bytes."""

    def __init__(self, content: bytes = b"") -> None:
        self.buffer = io.BytesIO(content)

    def flush(self) -> None:
        """Nothing waits."""

    def isatty(self) -> bool:
        """A pipe."""
        return False


def through(monkeypatch: pytest.MonkeyPatch, content: bytes, *words: str) -> tuple[int, bytes]:
    """What `xling translate` makes of standard input."""
    out = Stream()
    monkeypatch.setattr(sys, "stdin", Stream(content))
    monkeypatch.setattr(sys, "stdout", out)
    code = cli.main(["translate", *words])
    monkeypatch.undo()
    return code, out.buffer.getvalue()


def test_the_filter_keeps_lines_and_their_order(
    trained: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    english, arabic = lines(pairs / "en"), lines(pairs / "ar")
    text = "".join(f"{line}\n" for line in (english[0], "", english[1], "   ", *english[2:9]))
    wanted = [arabic[0], "", arabic[1], "", *arabic[2:9]]
    for buffer in ("buffer=1000", "buffer=2"):
        words = (str(trained), "--src", "en", "--tgt", "ar", buffer)
        code, out = through(monkeypatch, text.encode(), *words)
        made = out.decode().split("\n")
        assert code == 0 and made[-1] == "" and len(made) == len(wanted) + 1
        assert sum(a == b for a, b in zip(made, wanted, strict=False)) >= len(wanted) - 2
        assert (made[1], made[3]) == ("", "")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\n\n\n",
        b"no end",
        b"\xff\xfe broken\nnext\n",
        "a\u2028b\nc\u0085d\r\n".encode(),
        b"word " * 400,
        b"x" * 900,
    ],
)
def test_odd_input_gives_as_many_lines(
    trained: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    words = (f"checkpoint={trained}", "src=en", "tgt=ar", "search.beam=1", "search.max_len_b=3")
    code, out = through(monkeypatch, content, *words)
    count = content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
    assert code == 0 and out.count(b"\n") == count


def test_progress_goes_to_standard_error(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    through(monkeypatch, b"The teacher sees a red boat\n", f"checkpoint={trained}", "src=en", "tgt=ar")
    assert "translate en-ar: 1 lines" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "pattern"),
    [
        (["src=en", "tgt=de"], "mt was not trained on 'de'; valid: ar, en"),
        (["src=en", "tgt=xq"], "unknown language"),
        (["src=en", "tgt=ar", "buffer=0"], "buffer=0; valid: a whole number from 1"),
        (["src=en", "tgt=ar", "search.beam=0"], "beam=0; valid"),
        (["src=en"], "tgt not given"),
    ],
)
def test_mistakes_are_one_line(
    trained: Path, words: list[str], pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["translate", str(trained), *words]) == 2
    err = capsys.readouterr().err
    assert pattern in err and err.count("\n") == 1


def test_a_model_without_decoder_is_refused(model: Path) -> None:
    with pytest.raises(UserError, match="holds an encoder; valid: a model with a decoder"):
        Translator(model, Search())


@pytest.mark.parametrize(
    ("words", "pattern"),
    [
        (["test.en-ar=nowhere"], r"test\.en-ar: 1 files; valid: two: sources and references"),
        (["directions=en-de"], "directions=en-de: no parallel shards of this pair; valid: en-ar"),
        (["back_share=2"], "back_share=2.0; valid: a share"),
    ],
)
def test_mistakes_in_training_are_user_errors(
    pairs: Path, tmp_path: Path, words: list[str], pattern: str
) -> None:
    cfg = config.load(
        supervised.MtConfig, overrides=[f"data={pairs}/shards", f"out={tmp_path}/out", *SHAPE, *words]
    )
    with pytest.raises(UserError, match=pattern):
        supervised.run(cfg)
    assert not (tmp_path / "out").exists()


def test_test_sets_of_unequal_length_or_other_languages_are_refused(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("one line\n", encoding="utf-8")
    for word, pattern in (
        (f"test.en-ar={pairs}/en,{tmp_path}/short", "test en-ar: 40 lines in .*, 1 in"),
        (
            f"test.en-th={pairs}/en,{pairs}/ar",
            "test.en-th: th is not among the languages of the training; valid: ar, en",
        ),
        (f"test.en-ar={pairs}/en,{tmp_path}/none", "no file"),
    ):
        cfg = config.load(
            supervised.MtConfig, overrides=[f"data={pairs}/shards", f"out={tmp_path}/out", *SHAPE, word]
        )
        with pytest.raises(UserError, match=pattern):
            supervised.run(cfg)


def test_long_texts_are_cut_at_sentences_then_words_then_anywhere() -> None:
    text = [*["▁a"] * 5, "▁b", ".", *["▁c"] * 6]
    assert list(split_points(text, 8)) == [(0, 7), (7, 13)]
    assert list(split_points(["▁a", "b", "▁c", "d", "e", "▁f", "g", "h", "i"], 6)) == [(0, 5), (5, 9)]
    assert list(split_points(["▁a", *"bcdefghij"], 4)) == [(0, 4), (4, 8), (8, 10)]
    assert list(split_points(["▁字", "字", "字。", "字", "字", "字"], 4)) == [(0, 3), (3, 6)]
    assert list(split_points([], 4)) == []


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["▁a", "b", ".", "▁.", "。"]), max_size=60), st.integers(4, 12))
def test_the_parts_of_a_text_are_all_of_it(text: list[str], room: int) -> None:
    parts = list(split_points(text, room))
    assert [i for begin, end in parts for i in range(begin, end)] == list(range(len(text)))
    assert all(0 < end - begin <= room for begin, end in parts)


def test_flags_stand_alone_and_other_words_take_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["config", "pretrain", "--data", "x", "--dry-run", "out=y", "--seed", "7"]
    assert cli.main(words) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (shown["data"], shown["dry_run"], shown["out"], shown["seed"]) == ("x", True, "y", 7)
