"""Static encoders: what training brings, that a stopped run ends alike, and the files of a model."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from xling.core.errors import UserError
from xling.corpora.nway import build
from xling.corpora.nway.build import NwayConfig
from xling.static import encoder_files as model
from xling.static import train, vectors
from xling.static.settings import LatentConfig, StaticTraining
from xling.static.shape import StaticConfig
from xling.static.train import BatchSampler, Trainer, contrastive_loss
from xling.static.vectors import StaticEncoder, unit_length, word_hash
from xling.text.files.nway import open_rows, read_words
from xling.text.words.features import FEATURES_VERSION, WINDOW_PREFIX

SHAPE = StaticConfig(dim=16, bits=10, sketch=0)


def words(lang: str, numbers: list[int]) -> str:
    return " ".join(f"{lang}{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in numbers)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 rows of six words in three languages, whose words share no feature."""
    folder = tmp_path_factory.mktemp("static")
    rng = np.random.default_rng(1)
    rows = [rng.integers(0, 60, 6).tolist() for _ in range(300)]
    seed = folder / "data/seed"
    seed.mkdir(parents=True)
    for code, start in (("eng_Latn", "xq"), ("deu_Latn", "zv"), ("swh_Latn", "kw")):
        text = "".join(f"{words(start, row)}\n" for row in rows)
        (seed / f"{code}.txt").write_text(text, encoding="utf-8")
    build.run(NwayConfig(folder / "data", folder / "nway"))
    return folder / "nway"


def training(corpus: Path, out: Path, **changes: object) -> StaticTraining:
    given = {
        "updates": 60,
        "rows": 64,
        "lr": 0.05,
        "model": SHAPE,
        "start": LatentConfig(rounds=0),
        "english": 0.3,  # `accuracy` is that of a pair without English
        **changes,
    }
    return StaticTraining(data=corpus, out=out, **given)  # type: ignore[arg-type]


def accuracy(encoder: StaticEncoder) -> float:
    """Of finding the translations of 50 texts that no row holds."""
    rng = np.random.default_rng(2)
    rows = [rng.integers(0, 60, 6).tolist() for _ in range(50)]
    sides = [
        unit_length(encoder.sentence_vectors([words(lang, row) for row in rows])) for lang in ("zv", "kw")
    ]
    return float(((sides[0] @ sides[1].T).argmax(1) == torch.arange(50)).float().mean())


def test_training_brings_translations_together(corpus: Path, tmp_path: Path) -> None:
    made = train.run(training(corpus, tmp_path / "model"))
    assert made.counts["updates"] == 60
    assert accuracy(model.load_encoder(tmp_path / "model")) > 0.9
    assert accuracy(model.load_encoder(tmp_path / "model", random_init=True)) < 0.3


def test_the_beginning_of_a_vector_serves_alone_where_it_was_trained_to(corpus: Path, tmp_path: Path) -> None:
    found = {}
    for lengths in ((), (4,)):
        out = tmp_path / f"model{len(lengths)}"
        train.run(training(corpus, out, updates=120, lengths=lengths))
        encoder = model.load_encoder(out)
        assert accuracy(encoder) > 0.95
        short = StaticEncoder(dataclasses.replace(encoder.cfg, dim=4), encoder.table[:, :4], encoder.share)
        found[lengths] = accuracy(short)
    assert found[()] < 0.75 and found[(4,)] > 0.8, found


def test_latent_vectors_alone_bring_translations_together(corpus: Path, tmp_path: Path) -> None:
    cfg = training(corpus, tmp_path / "model", updates=0, minutes=0, start=LatentConfig())
    assert train.run(cfg).counts["updates"] == 0
    encoder = model.load_encoder(tmp_path / "model")
    assert accuracy(encoder) > 0.9
    assert float(encoder.table.pow(2).mean()) < 0.1


def test_wide_vectors_start_from_few_latent_ones(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Latent vectors of all numbers took 14 GB for 512 of them."""
    monkeypatch.setattr(train, "LATENT_DIM", 12)
    cfg = training(corpus, tmp_path / "model", updates=0, minutes=0, start=LatentConfig())
    assert train.run(cfg).counts["updates"] == 0
    encoder = model.load_encoder(tmp_path / "model")
    latent, new = encoder.table.split([12, 4], 1)
    assert float(new.pow(2).mean().sqrt()) == pytest.approx(float(latent.pow(2).mean().sqrt()) / 2, rel=0.05)
    assert accuracy(encoder) > 0.9


def test_an_encoder_is_trained_further(corpus: Path, tmp_path: Path) -> None:
    train.run(training(corpus, tmp_path / "first", updates=60))
    start = LatentConfig(encoder=tmp_path / "first")
    train.run(training(corpus, tmp_path / "second", updates=1, lr=1e-6, start=start))
    first, second = (model.load_encoder(tmp_path / name) for name in ("first", "second"))
    assert torch.allclose(first.table, second.table, atol=1e-3)
    assert torch.allclose(first.weight_direction, second.weight_direction, atol=1e-4)
    assert accuracy(second) > 0.9
    wide = StaticConfig(dim=24, bits=10, sketch=0)
    train.run(training(corpus, tmp_path / "wide", updates=1, lr=1e-6, start=start, model=wide))
    widened = model.load_encoder(tmp_path / "wide")
    assert torch.allclose(widened.table[:, :16], first.table, atol=1e-3)
    old_size, new_size = (float(each.pow(2).mean().sqrt()) for each in widened.table.split([16, 8], 1))
    assert new_size == pytest.approx(old_size / 2, rel=0.05)
    assert accuracy(widened) > 0.5
    other = training(corpus, tmp_path / "third", start=start, model=StaticConfig(dim=8, bits=10, sketch=0))
    with pytest.raises(UserError, match=r"start\.encoder=.* has StaticConfig\(dim=16"):
        train.run(other)
    with pytest.raises(UserError, match="learn nothing"):
        training(corpus, tmp_path / "fourth", updates=0, minutes=0, start=start)


def test_a_stopped_training_goes_on_to_the_same_weights(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train.run(training(corpus, tmp_path / "whole", updates=20))
    cfg = training(corpus, tmp_path / "stopped", updates=20, save_minutes=1e-9)
    update, done = Trainer.update, 0

    def failing(*given: object) -> float:
        nonlocal done
        done += 1
        if done == 13:
            raise KeyboardInterrupt
        return update(*given)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "update", failing)
        with pytest.raises(KeyboardInterrupt):
            train.run(cfg)
        done = 100
        capsys.readouterr()
        (state,) = tmp_path.glob(".*.pt")
        whole = state.read_bytes()
        state.write_bytes(whole[:9000] + bytes([whole[9000] ^ 64]) + whole[9001:])
        assert not train._TrainingState.has_saved(cfg), "a turned bit is no weight"
        assert "state.pt was changed or damaged" in capsys.readouterr().err
        state.write_bytes(whole)
        train.run(cfg)
    assert "8 of 8 updates" in capsys.readouterr().err, "the time left is that of the updates left"
    assert done == 108, "twelve updates were not repeated"
    a, b = (model.load_encoder(tmp_path / name) for name in ("whole", "stopped"))
    assert torch.equal(a.table, b.table) and torch.equal(a.weight_direction, b.weight_direction)
    assert not list(tmp_path.glob(".*")), "the state is gone"
    state.write_bytes(whole)  # as a process leaves it that is killed after the publication
    train.run(cfg)
    assert not state.exists()


def test_the_loss_is_that_of_the_paper() -> None:
    torch.manual_seed(1)
    a, b = unit_length(torch.randn(5, 8)), unit_length(torch.randn(5, 8))
    wanted = 0.0
    for one, other in ((a, b), (b, a)):
        for i in range(5):
            scores = [float(one[i] @ other[j]) - (0.3 if i == j else 0) for j in range(5)]
            wanted -= scores[i] / 0.1 - float(torch.logsumexp(torch.tensor(scores) / 0.1, 0))
    assert float(contrastive_loss(a, b, 0.1, 0.3)) == pytest.approx(wanted / 10, rel=1e-5)


@pytest.mark.parametrize("lengths", [(), (4, 8)])
def test_an_update_is_one_step_of_rowwise_adagrad(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lengths: tuple[int, ...]
) -> None:
    """With ``lengths`` the loss is the mean of those of the whole vectors and of their beginnings."""
    cfg = training(corpus, tmp_path / "unused", drop=0.0, lengths=lengths)
    sets, hashes, ends, frequency = open_rows(corpus)
    weights = (cfg.model.smooth / (cfg.model.smooth + frequency)).astype(np.float32)
    trainer, batches = Trainer(cfg, hashes, ends, weights), BatchSampler(sets, cfg)
    sides = batches.draw(0)[0]
    table = trainer.table.clone().requires_grad_()
    rows = torch.from_numpy((hashes % np.uint32(len(table))).astype(np.int64))
    pooled = [
        torch.stack(
            [
                torch.stack([weights[w] * table[rows[ends[w] : ends[w + 1]]].mean(0) for w in text]).sum(0)
                for text in side
            ]
        )
        for side in sides
    ]
    losses = [
        contrastive_loss(*(unit_length(side[:, :length]) for side in pooled), cfg.temperature, cfg.margin)
        for length in (cfg.model.dim, *lengths)
    ]
    loss = torch.stack(losses).mean()
    loss.backward()
    before = trainer.table.clone()
    monkeypatch.setattr(train, "ROWS_PER_STEP", 7)
    assert trainer.update(sides, 0.01) == pytest.approx(loss.item(), rel=1e-4)
    gradient = table.grad * len(sides[0])  # the loss is a mean over rows, its step that of their sum
    squares = gradient.pow(2).mean(1)
    wanted = -0.01 * gradient / (squares.sqrt() + 1e-6)[:, None]
    assert torch.allclose(trainer.squared_sums, squares, rtol=1e-3, atol=1e-9)
    assert torch.allclose(trainer.table - before, wanted, rtol=1e-2, atol=1e-5)


def test_batches_depend_on_their_number_alone_and_hold_translations(corpus: Path, tmp_path: Path) -> None:
    cfg = training(corpus, tmp_path / "unused", drop=0.0)
    sets, *_ = open_rows(corpus)
    first, again = BatchSampler(sets, cfg), BatchSampler(sets, cfg)
    first.draw(1)
    for a, b in zip(first.draw(7)[0], again.draw(7)[0], strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    known = read_words(corpus)
    for a, b in zip(*first.draw(3)[0], strict=True):
        one, other = ([known[i] for i in text] for text in (a, b))
        assert [w[2:] for w in one] == [w[2:] for w in other]
        assert one[0][:2] != other[0][:2]


def test_one_side_of_a_pair_is_english_as_often_as_asked(corpus: Path, tmp_path: Path) -> None:
    """By default always; the other side is any language, either side may be English."""
    (rows,), *_ = open_rows(corpus)
    langs = {
        tuple(rows.text(column, row)): lang
        for column, lang in enumerate(rows.langs)
        for row in range(rows.ends.shape[1] - 1)
    }
    always = StaticTraining(data=corpus, out=tmp_path / "unused", rows=300, drop=0.0)
    for cfg, least, most in ((always, 300, 300), (dataclasses.replace(always, english=0.0), 160, 240)):
        pairs = [
            (langs[tuple(a)], langs[tuple(b)])
            for a, b in zip(*BatchSampler([rows], cfg).draw(0)[0], strict=True)
        ]
        assert least <= sum("en" in pair for pair in pairs) <= most
        assert {a for a, _ in pairs} == {b for _, b in pairs} == {"en", "de", "sw"}


def test_a_word_that_is_frequent_counts_less_and_an_unseen_one_has_a_vector(tmp_path: Path) -> None:
    encoder = model.random_encoder(SHAPE, {word_hash("the"): 0.05})
    assert encoder.weight("The") == pytest.approx(SHAPE.smooth / (SHAPE.smooth + 0.05))
    assert encoder.weight("Unheardof") == 1.0
    vectors = encoder.sentence_vectors(["The", "the", "", "Unheardof the"])
    assert torch.equal(vectors[0], vectors[1])
    assert not vectors[2].any() and vectors[3].any()
    model.save_encoder(encoder, tmp_path)
    loaded = model.load_encoder(tmp_path)
    assert torch.allclose(
        loaded.sentence_vectors(["Unheardof"]), encoder.sentence_vectors(["Unheardof"]), atol=1e-3
    )


def test_a_word_along_the_learned_direction_counts_more() -> None:
    encoder = model.random_encoder(SHAPE, {word_hash("b"): 0.05})
    a, b = encoder.token_vectors(["a", "b"])
    vectors = encoder.word_vectors(["a", "b"])
    encoder.weight_direction = 0.5 * (a - b)
    factors = [float(torch.exp(2 * (each @ (a - b)))) for each in (a, b)]
    expected = factors[0] * vectors[0] + factors[1] * encoder.weight("b") * vectors[1]
    assert torch.allclose(encoder.sentence_vectors(["a b"])[0], unit_length(expected), atol=1e-5)
    assert factors[0] > 1 > factors[1]
    assert torch.equal(encoder.word_vectors(["a", "b"]), vectors), "words themselves stay as they are"
    assert torch.equal(encoder.without_sketch().sentence_vectors(["a b"]), encoder.sentence_vectors(["a b"]))


def test_training_learns_weights_of_words_that_the_files_keep(tmp_path: Path, corpus: Path) -> None:
    """The texts that the trainer sums are those of the saved encoder, weights included."""
    train.run(training(corpus, tmp_path / "model"))
    encoder = model.load_encoder(tmp_path / "model")
    assert 0.01 < float(encoder.weight_direction.norm()) < 3
    sets, hashes, ends, frequency = open_rows(corpus)
    cfg = training(corpus, tmp_path / "other")
    weights = (SHAPE.smooth / (SHAPE.smooth + frequency)).astype(np.float32)
    trainer = Trainer(cfg, hashes, ends, weights, encoder.table, encoder.weight_direction)
    sides = BatchSampler(sets, dataclasses.replace(cfg, drop=0.0)).draw(0)[0]
    batch = trainer._read(sides)
    known = read_words(corpus)
    ours = [" ".join(known[i] for i in text) for text in [*sides[0], *sides[1]]]
    assert torch.allclose(batch.pool(batch.vectors), encoder.sentence_vectors(ours), atol=2e-3)


def test_traditional_characters_have_the_vectors_and_weights_of_simplified_ones() -> None:
    share = {word_hash(f"{WINDOW_PREFIX}{word}"): 0.05 for word in ("这个", "個")}
    encoder = model.random_encoder(SHAPE, share)
    assert (
        len(share) == 2
        and encoder.weight(f"{WINDOW_PREFIX}這個") == encoder.weight(f"{WINDOW_PREFIX}个") < 0.5
    )
    simplified, traditional, other = encoder.sentence_vectors(["这个图书馆", "這個圖書館", "这个图书室"])
    assert torch.equal(simplified, traditional) and not torch.equal(simplified, other)


def test_a_sketch_finds_names_and_numbers_that_nothing_was_learned_of() -> None:
    cfg = StaticConfig(dim=4, bits=4, sketch=256, sketch_weight=0.5)
    encoder = StaticEncoder(cfg, torch.zeros(16, 4), {})
    names = ["Меркель 2019", "Путин 1984", "Обама 77"]
    a, b = (
        encoder.sentence_vectors(names),
        encoder.sentence_vectors(["merkel 2019", "putin 1984", "obama 77"]),
    )
    assert a.shape == (3, 260)
    assert not a[:, :4].any()
    assert torch.allclose(a.norm(dim=1), torch.tensor(0.5))
    assert ((a @ b.T).argmax(1) == torch.arange(3)).all()
    assert encoder.word_vectors(["merkel"]).shape == (1, 4)


def test_minutes_are_kept_by_the_clock(corpus: Path, tmp_path: Path) -> None:
    cfg = training(corpus, tmp_path / "unused", updates=0, minutes=2.0)
    now = iter([0.0, 30.0, 60.0, 90.0, 150.0])
    state = train._TrainingState(cfg, None, clock=lambda: next(now))  # type: ignore[arg-type]
    parts = []
    while state.budget_used() < 1:
        parts.append(state.budget_used())
        state.updates += 0
        state._last_save_at = 1e9
        state.advance()
    assert parts == [0.0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"updates": -1}, "updates=-1; valid: a whole number from 0"),
        ({"updates": 0, "minutes": 0}, "minutes=0 updates=0 would learn nothing"),
        ({"rows": 1}, "rows=1; valid: at least 2"),
        ({"drop": 1.0}, "drop=1.0; valid: a number from 0 to 0.9"),
        ({"lengths": (8, 16)}, "lengths=8,16; valid: numbers from 1 to 15, below model.dim"),
        ({"temperature": 0}, "temperature=0; valid: a number above 0"),
        ({"model": StaticConfig(features=3)}, "model.features=3; valid: 4, the version of the rows of text"),
    ],
)
def test_settings_out_of_range_are_refused(corpus: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as error:
        training(corpus, Path("unused"), **changes)
    assert message in str(error.value)


def test_what_is_no_model_or_no_corpus_is_refused(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "static.json").write_text(f'{{"features": {FEATURES_VERSION}}}', encoding="utf-8")
    with pytest.raises(UserError, match=r"not a static encoder.*run it again"):
        model.load_encoder(tmp_path)
    with pytest.raises(UserError, match="a share above 0"):
        train.run(training(corpus, tmp_path / "out", shares={"seed": 0.0}))


@pytest.mark.parametrize(("name", "content"), [("static.safetensors", b"cut"), ("static.json", b"[]")])
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    model.save_encoder(model.random_encoder(SHAPE, {}), tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match="is not a static encoder"):
        model.load_encoder(tmp_path)


def test_other_rules_of_features_are_refused(corpus: Path, tmp_path: Path) -> None:
    """Hashes of older rules would look up other rows of the table: no error, but vectors that say nothing."""
    model.save_encoder(model.random_encoder(SHAPE, {}), tmp_path)
    settings = json.loads((tmp_path / "static.json").read_text())
    (tmp_path / "static.json").write_text(json.dumps({k: v for k, v in settings.items() if k != "features"}))
    with pytest.raises(
        UserError,
        match=rf"version 1 of the word features; valid: version 3 or {FEATURES_VERSION}; fix: run xling corpus nway",
    ):
        model.load_encoder(tmp_path)
    older = tmp_path / "older"
    shutil.copytree(corpus, older)
    record = json.loads((older / "manifest.json").read_text())
    del record["config"]["features"]
    (older / "manifest.json").write_text(json.dumps(record))
    with pytest.raises(
        UserError,
        match=rf"version 1 of the word features; valid: version {FEATURES_VERSION}; fix: run xling corpus nway",
    ):
        open_rows(older)


def test_words_are_remembered_between_calls_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One text at a time, in any order and with a memory that is full at once: the vectors of one call, to the bit."""
    cfg = StaticConfig(dim=16, bits=10, sketch=8)
    made = model.random_encoder(cfg, {word_hash("the"): 0.1})
    made.weight_direction = torch.linspace(-1, 1, 16)
    texts = [
        "The boat the river",
        "a river \x01 boat",
        "",
        "reka é 12",
        "圖書館 the",
        "the",
        "The boat the river",
    ]
    whole = StaticEncoder(cfg, made.table, made.share, made.weight_direction).sentence_vectors(texts)
    for limit in (1 << 15, 5, 2):
        monkeypatch.setattr(vectors, "REMEMBERED_WORDS", limit)
        for numbers in (range(7), reversed(range(7))):
            for number in numbers:
                assert torch.equal(made.sentence_vectors(texts[number : number + 1])[0], whole[number])
        assert len(made._remembered) <= limit
    monkeypatch.setattr(vectors, "REMEMBERED_WORDS", 1 << 15)
    asked: list[str] = []
    mean = made._mean_vectors
    monkeypatch.setattr(
        made, "_mean_vectors", lambda groups: asked.extend(w for (w,) in groups) or mean(groups)
    )
    made.sentence_vectors(["new boat new"]), made.sentence_vectors(["new boat"])
    assert asked.count("new") == 1, "each word is computed once"
