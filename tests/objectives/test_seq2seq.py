"""Objectives with a decoder: batches worked by hand, what holds for any text, freezing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.data.masking import MaskRule
from xling.data.packing import pack_seq2seq
from xling.data.symbols import NUM_SENTINELS, Symbols
from xling.models.files import model_weights
from xling.objectives import OBJECTIVES, dae, mass, mbart, seq2seq, span_corruption, translation
from xling.objectives.pairs import Pair
from xling.text.files.shards import Shard
from xling.training import assemble, train

SYMBOLS = Symbols(50, ("de", "en"))
MASK, DE, EN, FIRST = 50, 51, 52, 53
PAIR = Pair(np.array([10, 11, 2]), np.array([20, 21, 22, 2]), src_lang=1, tgt_lang=0)
ALL_MASKED = MaskRule(prob=0.5, leave=0.0, random=0.0, mask_id=MASK, first_piece=4, end_piece=MASK)
STARTS = np.arange(SYMBOLS.size) >= 10
SENTENCE = np.array([10, 11, 5, 12, 13, 2])


class Scripted:
    """Stands for a generator whose answers are written down."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    def answer(self, *arguments: object, **more: object) -> Any:
        return self.answers.pop(0)

    random = permutation = integers = choice = uniform = poisson = answer


def plain(example: dict[str, np.ndarray]) -> dict[str, list[int]]:
    return {key: value.tolist() for key, value in example.items()}


def test_symbols_follow_the_pieces() -> None:
    assert (SYMBOLS.lang(0), SYMBOLS.lang(1), SYMBOLS.sentinel(0)) == (DE, EN, FIRST)
    assert SYMBOLS.size == FIRST + NUM_SENTINELS
    assert Symbols.of_size(SYMBOLS.size, ["de", "en"]) == SYMBOLS
    # A model of another origin has as many sentinels as ids are left.
    assert Symbols.behind(50, 60, ["de", "en"]).size == 60
    assert Symbols.behind(50, SYMBOLS.size, ["de", "en"]) == SYMBOLS
    assert SYMBOLS.names()[:3] == ["[de]", "[en]", "<extra_id_0>"]


def test_a_text_is_at_most_ten_times_as_long_as_its_source() -> None:
    # Nearly all is hidden, in long spans: without a bound one source of 64 tokens would hold thousands.
    assert span_corruption.longest_text(64, 0.95, 20.0) == 10 * 64 + 1
    assert span_corruption.longest_text(16, 0.15, 3.0) < 20


def test_translation_and_xae() -> None:
    assert plain(seq2seq.both_sides(PAIR, SYMBOLS)) == {
        "tokens": [10, 11, 2, EN],
        "positions": [0, 1, 2, 3],
        "langs": [1, 1, 1, 1],
        "prev_tokens": [DE, 20, 21, 22],
        "prev_positions": [0, 1, 2, 3],
        "prev_langs": [0, 0, 0, 0],
        "target": [20, 21, 22, 2],
    }


def test_translation_through_a_bottleneck_names_no_source_language() -> None:
    made = translation.bottleneck(seq2seq.both_sides(PAIR, SYMBOLS), PAIR.src)
    assert made["tokens"].tolist() == [0, 10, 11, 2]


def test_mass() -> None:
    # Five pieces, half of them: 2.5, and the coin rounds down; the span begins at 1; all of it is masked.
    script = Scripted(0, 0.4, 1, np.ones(2), np.zeros(2, dtype=int))
    made = mass.example(SENTENCE, 1, 0.5, ALL_MASKED, SYMBOLS, script)  # type: ignore[arg-type]
    assert plain(made) == {
        "tokens": [10, MASK, MASK, 12, 13, 2, EN],
        "positions": [0, 1, 2, 3, 4, 5, 6],
        "langs": [1] * 7,
        "prev_tokens": [EN, 11],
        "prev_positions": [1, 2],
        "prev_langs": [1, 1],
        "target": [11, 5],
    }


def test_dae() -> None:
    # Words 10, 11+5, 12, 13: the first two change places, then the third of the new order is dropped, the last blanked.
    script = Scripted(np.array([2.5, 0.2, 0.6, 0.0]), np.array([1, 1, 0, 1]), np.array([1, 1, 0]))
    made = dae.noisy(SENTENCE, STARTS, dae.DaeConfig(), MASK, script)  # type: ignore[arg-type]
    assert made.tolist() == [11, 5, 10, MASK, 2]


def test_dae_with_no_noise_copies_the_sentence(build: Any) -> None:
    _, task = build("dae", *(f"objectives.dae.{kind}=0" for kind in ("shuffle", "drop", "blank")))
    task.load_dataset("train")
    example = task.dataset("train")[0]
    assert example["tokens"][:-1].tolist() == example["target"].tolist()


def test_mbart() -> None:
    # Two sentences change places; of four words one (.35 * 4 = 1.4, rounded down) is masked, the third.
    tokens = np.array([10, 11, 5, 2, 12, 13, 2])
    script = Scripted(np.array([0, 1]), np.array([1, 0]), 0.1, 3, np.array([2]))
    made = mbart.noisy(tokens, STARTS, mbart.MbartConfig(), MASK, script)  # type: ignore[arg-type]
    assert made.tolist() == [12, 13, 2, MASK, 11, 5, 2]


def test_span_corruption() -> None:
    # Ten tokens, .4 of them in spans of 2: 1 + 3, with 2 + 4 between.
    tokens = np.array([*range(10, 20), 2])
    script = Scripted(np.array([0]), np.array([1]))
    source, target = span_corruption.split_spans(tokens, 0.4, 2, SYMBOLS, script)  # type: ignore[arg-type]
    assert source.tolist() == [10, 11, FIRST, 13, 14, 15, 16, FIRST + 1, 2]
    assert target.tolist() == [FIRST, 12, FIRST + 1, 17, 18, 19, 2]


@given(
    arrays.arrays(np.int64, st.integers(3, 200), elements=st.integers(4, 49)),
    st.floats(0.05, 0.5),
    st.floats(1, 8),
    st.integers(0, 99),
)
def test_span_corruption_can_be_undone(tokens: np.ndarray, share: float, mean: float, seed: int) -> None:
    tokens[-1] = 2
    source, target = span_corruption.split_spans(tokens, share, mean, SYMBOLS, rng(seed))
    spans: dict[int, list[int]] = {}
    for token in target[:-1].tolist():
        if token >= FIRST:
            spans[token] = []
        else:
            spans[list(spans)[-1]].append(token)
    restored = [x for token in source.tolist() for x in spans.get(token, [token])]
    assert restored == tokens.tolist()
    assert max(len(source), len(target)) <= len(tokens)
    assert list(spans) == list(range(FIRST, FIRST + len(spans)))


@given(
    arrays.arrays(np.int64, st.integers(1, 60), elements=st.integers(2, 49)),
    st.floats(0, 1),
    st.integers(0, 99),
)
def test_mass_masks_a_span_and_predicts_it_where_it_stood(
    tokens: np.ndarray, share: float, seed: int
) -> None:
    tokens = np.append(tokens, 2)
    made = mass.example(tokens, 0, share, ALL_MASKED, SYMBOLS, rng(seed))
    where = made["prev_positions"]
    assert made["target"].tolist() == tokens[where].tolist()
    assert (np.diff(where) == 1).all() and len(where)
    outside = np.setdiff1d(np.arange(len(tokens)), where)
    assert (made["tokens"][outside] == tokens[outside]).all()
    assert (made["tokens"][where] == MASK).all()
    assert made["prev_tokens"].tolist() == [DE, *made["target"][:-1].tolist()]
    if (tokens >= 4).any():
        assert (made["target"] >= 4).all()


def test_a_batch_lies_end_to_end_in_one_order() -> None:
    def pair(number: int, src: list[int], tgt: list[int]) -> dict[str, np.ndarray]:
        made = seq2seq.both_sides(Pair(np.array(src), np.array(tgt), 1, 0), SYMBOLS)
        return made | {"id": np.array([number])}

    sample = pack_seq2seq(
        [pair(0, [10, 2], [20, 2]), pair(1, [11, 12, 2], [21, 2]), pair(2, [13, 2], [22, 2])]
    )
    inputs = sample["net_input"]
    assert sample["id"].tolist() == [1, 0, 2]
    assert inputs["src_tokens"].tolist() == [11, 12, 2, EN, 10, 2, EN, 13, 2, EN]
    assert inputs["runs"] == [(1, 4), (2, 3)]
    assert inputs["decoder"]["tokens"].tolist() == [DE, 21, DE, 20, DE, 22]
    assert inputs["decoder"]["runs"] == [(3, 2)]
    assert inputs["decoder"]["cross"] == [(1, 2, 4), (2, 2, 3)]
    assert sample["target"].tolist() == [21, 2, 20, 2, 22, 2]
    assert sample["target_langs"].tolist() == [0] * 6
    assert (sample["ntokens"], sample["nsentences"]) == (16, 3)


def test_texts_are_sentences_or_as_many_of_a_document_as_fit() -> None:
    sizes = np.array([4, 3, 1, 5, 4, 9, 2, 1], dtype=np.int32)
    shard = Shard(
        np.zeros(sizes.sum(), dtype=np.uint16), sizes, 2 * (np.cumsum(sizes, dtype=np.int64) - sizes)
    )
    starts, lengths = seq2seq.texts_of(shard, 8, join=False)
    assert starts.tolist() == [0, 4, 8, 13, 17, 26] and lengths.tolist() == [4, 3, 5, 4, 9, 2]
    starts, lengths = seq2seq.texts_of(shard, 8, join=True)
    assert starts.tolist() == [0, 8, 13, 17, 26] and lengths.tolist() == [7, 5, 4, 9, 2]


@pytest.mark.parametrize(
    ("directions", "wanted"),
    [
        ("", {("en", "ar"), ("ar", "en"), ("en", "th"), ("th", "en")}),
        ("ar-en,en-th", {("ar", "en"), ("en", "th")}),
    ],
)
def test_translation_takes_the_directions_that_are_named(
    build: Any, directions: str, wanted: set[tuple[str, str]]
) -> None:
    _, task = build("translation", f"objectives.translation.directions={directions}")
    task.load_dataset("train")
    dataset = task.dataset("train")
    seen = {
        (task.langs[int(e["langs"][0])], task.langs[int(e["prev_langs"][0])])
        for e in (dataset[i] for i in range(len(dataset)))
    }
    assert seen == wanted


def test_a_long_sentence_fills_the_longest_sequence(build: Any) -> None:
    _, task = build("translation", "objectives.translation.tokens_per_sample=16")
    task.load_dataset("train")
    dataset = task.dataset("train")
    examples = [dataset[i] for i in range(len(dataset))]
    assert max(len(e["tokens"]) for e in examples) == 16
    assert (
        max(len(e["target"]) for e in examples) == 15
    )  # a text has room for the token of its language on either side


@pytest.mark.parametrize("name", [n for n, entry in OBJECTIVES.items() if entry.decoder and n != "umt"])
@pytest.mark.parametrize("named", [True, False])
def test_a_source_names_its_language_where_the_model_says_so(build: Any, name: str, named: bool) -> None:
    trainer, task = build(name, f"model.source_lang={named}")
    task.load_dataset("train")
    dataset, mask = task.dataset("train"), task.dictionary.index("<mask>")
    langs = range(mask + 1, mask + 1 + len(task.langs))
    for index in range(20):
        example = dataset[index]
        assert (example["tokens"][-1] in langs) == named
        assert example["tokens"][-1 - named] == 2 and not set(example["tokens"][:-1]) & {*langs}
        assert len(example["tokens"]) == len(example["positions"]) == len(example["langs"])
        assert example["prev_tokens"][0] in langs
    assert trainer.get_model().cfg.source_lang == named


def test_translation_through_a_bottleneck_is_the_same_without_a_language_token() -> None:
    bare = dataclasses.replace(SYMBOLS, source_lang=False)
    one, two = (translation.bottleneck(seq2seq.both_sides(PAIR, s), PAIR.src) for s in (SYMBOLS, bare))
    assert plain(one) == plain(two)


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_frozen_part_stays_bit_for_bit(part: str, recipe: Any, bitext: Path, tmp_path: Path) -> None:
    train.run(recipe(bitext, "mmlm", tmp_path / "stage1"))
    init = f"init={tmp_path}/stage1"
    made = train.run(recipe(bitext, "dae+xae", tmp_path / "stage2", init, f"freeze={part}"))
    assert not isinstance(made, str) and made.counts["frozen"]["parameters"] > 0
    fresh, _ = assemble.build_trainer(recipe(bitext, "dae+xae", tmp_path / "other", init), tmp_path / "other")
    before, after = (
        fresh.get_model().state_dict(),
        model_weights.load_seq2seq(tmp_path / "stage2")[0].state_dict(),
    )
    for name, weight in after.items():
        in_decoder = name.startswith("decoder.")
        inside = in_decoder or name in assemble.EMBEDDINGS if part == "decoder" else not in_decoder
        inside |= name == "decoder.head.weight"  # the embeddings
        touched = name in (
            "lm_head.dense.weight",
            "lm_head.dense.bias",
            "lm_head.norm.weight",
            "lm_head.norm.bias",
        )
        if not touched:  # no objective here uses the encoder's own head
            assert torch.equal(weight, before[name]) == inside, name


@pytest.mark.parametrize("words", [(), ("model.plain_head=true", "model.untied_head=true")])
def test_the_head_of_a_decoder_counts_as_embeddings(words: tuple[str, ...], build: Any) -> None:
    for part in ("body", "embeddings"):
        trainer, _ = build("dae", *words, f"freeze={part}")
        head = {
            name: parameter.requires_grad
            for name, parameter in trainer.get_model().named_parameters()
            if name.startswith("decoder.head.") and name.endswith(("head.weight", "head.bias"))
        }
        assert head and all(trains == (part == "body") for trains in head.values()), (part, head)


def test_what_an_objective_keeps_may_move_though_all_else_is_frozen(
    recipe: Any, bitext: Path, tmp_path: Path
) -> None:
    made = train.run(recipe(bitext, "xlco", tmp_path / "out", "freeze=embeddings"))
    assert not isinstance(made, str) and made.counts["frozen"]["parameters"] > 0


@pytest.mark.parametrize("word", ["model.norm_eps=1e-3", "model.source_lang=false"])
def test_settings_that_no_weight_shows_must_be_those_of_the_start(
    word: str, recipe: Any, bitext: Path, tmp_path: Path
) -> None:
    train.run(recipe(bitext, "dae", tmp_path / "first", word))
    with pytest.raises(UserError, match=f"has {word}, not|has {word.replace('1e-3', '0.001')}, not"):
        train.run(recipe(bitext, "dae", tmp_path / "second", f"init={tmp_path}/first"))


def test_a_frozen_part_that_changes_is_noticed(recipe: Any, bitext: Path, tmp_path: Path) -> None:
    trainer, _ = assemble.build_trainer(recipe(bitext, "dae", tmp_path, "freeze=encoder"), tmp_path)
    model = trainer.get_model()
    before = assemble.frozen_digest(model)
    with torch.no_grad():
        model.encoder.layers[0].up.weight[0, 0] += 1e-3
    assert assemble.frozen_digest(model) != before


@pytest.mark.parametrize(
    ("names", "words", "pattern"),
    [
        (
            "mmlm",
            ["model.decoder_layers=2"],
            "model.decoder_layers without an objective that has a decoder; valid: one of dae",
        ),
        (
            "mmlm",
            ["model.plain_head=true", "model.untied_head=true"],
            "without an objective that has a decoder",
        ),
        ("mmlm", ["model.source_lang=false"], "model.source_lang without an objective that has a decoder"),
        ("dae", ["model.untied_head=true"], "model.untied_head=true with model.plain_head=false"),
        ("dae", ["model.head_dim=-1"], "model.head_dim=-1; valid: a width from 1"),
        ("dae", ["model.norm=root"], "value for model.norm 'root'; valid: layer, rms"),
        ("dae", ["objectives.dae.drop=2"], "drop=2.0; valid: a share"),
        ("dae", ["objectives.dae.shuffle=-1"], "shuffle=-1.0; valid: a number of places"),
        ("mass", ["objectives.mass.span=-1"], "span=-1.0; valid: a share"),
        ("mbart", ["objectives.mbart.infill=3"], "infill=3.0; valid: a share"),
        ("mbart", ["objectives.mbart.span_mean=0"], "span_mean=0.0; valid: a number of words"),
        (
            "span_corruption",
            ["objectives.span_corruption.span_mean=0"],
            "span_mean=0.0; valid: a number of tokens",
        ),
        (
            "translation",
            ["objectives.translation.directions=en-sw"],
            "directions=en-sw: no parallel shards of this pair; valid: en-ar, en-th",
        ),
        ("translation", ["objectives.translation.pooling=cls"], "translation.pooling 'cls'"),
        ("translation", ["objectives.translation.label_smoothing=1"], "label_smoothing=1.0; valid: a share"),
    ],
)
def test_a_mistake_is_one_line(
    refused: Any, bitext: Path, tmp_path: Path, names: str, words: list[str], pattern: str
) -> None:
    refused(pattern, bitext, names, tmp_path / "out", *words)
