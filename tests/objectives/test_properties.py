"""What must hold for any text: masking, leaks, shares, mixing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from xling.core.sampling import rng
from xling.data import masking
from xling.data.masking import MaskRule
from xling.objectives import camlm, clpc, mmlm, multi, tlm, xmlm
from xling.objectives.dataset import Stream
from xling.objectives.pairs import Pair
from xling.text.files import shards

VOCAB, MASK = 60, 59
UNITS = ("token", "word", "span")
TOKENS = arrays.arrays(np.int64, st.integers(1, 80), elements=st.integers(0, MASK - 1))
STARTS = rng("starts").random(VOCAB) < 0.5
RULES = st.builds(
    lambda prob, leave, random, unit: MaskRule(prob, leave, random, MASK, 4, MASK, unit, STARTS),
    st.floats(0, 1),
    st.floats(0, 0.5),
    st.floats(0, 0.5),
    st.sampled_from(UNITS),
)


@given(TOKENS, RULES, st.integers(0, 99))
def test_specials_are_never_masked_or_predicted_and_labels_stand_where_masked(
    tokens: np.ndarray, rule: MaskRule, seed: int
) -> None:
    made = mmlm.example(tokens, rule, rng(seed))
    chosen = made["chosen"]
    assert chosen.dtype == np.int64
    assert (np.diff(chosen) > 0).all()
    assert (tokens[chosen] >= 4).all()
    assert made["target"].tolist() == tokens[chosen].tolist()
    changed = np.flatnonzero(made["tokens"] != tokens)
    assert set(changed) <= set(chosen)
    assert (made["tokens"][changed] >= 4).all()
    assert (len(chosen) > 0) == bool((tokens >= 4).any())


@given(TOKENS, st.sampled_from(["word", "span"]), st.floats(0, 1), st.integers(0, 99))
def test_words_are_chosen_whole(tokens: np.ndarray, unit: str, prob: float, seed: int) -> None:
    rule = MaskRule(prob, 0, 0, MASK, 4, MASK, unit, STARTS)
    chosen = set(masking.choose(tokens, rule, rng(seed)).tolist())
    for position in range(1, len(tokens)):
        inside = tokens[position] >= 4 and tokens[position - 1] >= 4 and not STARTS[tokens[position]]
        if inside:
            assert (position in chosen) == (position - 1 in chosen)


@pytest.mark.parametrize("name", ["tlm", "camlm", "clpc", "btmlm"])
def test_the_second_text_is_a_segment_of_its_own(build: Any, name: str) -> None:
    """Where positions start again, so does the segment; one text alone has none."""
    _, task = build(name)
    task.load_dataset("train")
    dataset = task.dataset("train")
    sample = dataset.collater([dataset[i] for i in range(4)])
    for inputs in [part["net_input"] for part in (sample, sample.get("blank", sample))]:
        starts = np.cumsum(inputs["positions"].numpy() == 0) - 1
        assert inputs["segments"].tolist() == (starts % 2).tolist() and starts[-1] == 7
    _, task = build("mmlm")
    task.load_dataset("train")
    assert "segments" not in task.dataset("train").collater([task.dataset("train")[0]])["net_input"]


@pytest.mark.parametrize("unit", UNITS)
def test_the_share_of_chosen_positions_is_the_asked_one(unit: str) -> None:
    tokens = rng("text").integers(4, MASK, 256)
    rule = MaskRule(0.15, 0.1, 0.1, MASK, 4, MASK, unit, STARTS)
    made = [mmlm.example(tokens, rule, rng(unit, i)) for i in range(400)]
    shares = [len(example["chosen"]) / len(tokens) for example in made]
    assert np.mean(shares) == pytest.approx(0.15, abs=0.003)
    masks = sum((example["tokens"] == MASK).sum() for example in made)
    kept = sum((example["tokens"][example["chosen"]] == example["target"]).sum() for example in made)
    total = sum(len(example["chosen"]) for example in made)
    assert masks / total == pytest.approx(0.8, abs=0.02)
    assert kept / total == pytest.approx(0.1 + 0.1 / (MASK - 4), abs=0.02)


def test_spans_have_the_mean_length_of_a_cut_geometric() -> None:
    tokens, starts = np.full(2000, 10), np.ones(VOCAB, dtype=bool)
    words = masking.word_numbers(tokens, tokens >= 4, starts)
    lengths = np.concatenate(
        [np.bincount(masking.span_numbers(words, np.arange(2000), rng(i)))[:-1] for i in range(30)]
    )
    wanted = sum(min(k, 10) * 0.2 * 0.8 ** (k - 1) for k in range(1, 200))
    assert lengths.mean() == pytest.approx(wanted, rel=0.03)
    assert lengths.max() == 10


def sentence(size: st.SearchStrategy[int]) -> st.SearchStrategy[np.ndarray]:
    words = arrays.arrays(np.int64, size, elements=st.integers(4, MASK - 1))
    return words.map(lambda tokens: np.concatenate([tokens, [2]]))


PAIRS = st.builds(
    lambda src, tgt: Pair(src, tgt, 0, 1), sentence(st.integers(1, 12)), sentence(st.integers(1, 12))
)


@given(PAIRS, RULES, st.booleans(), st.integers(0, 99))
def test_tlm_positions_restart_and_both_sides_keep_their_language(
    pair: Pair, rule: MaskRule, restart: bool, seed: int
) -> None:
    made = tlm.example(pair, rule, restart, rng(seed))
    first, second = len(pair.src) + 1, len(pair.tgt) + 1
    start = 0 if restart else first
    assert made["positions"].tolist() == [*range(first), *range(start, start + second)]
    assert made["langs"].tolist() == [0] * first + [1] * second
    assert len(made["tokens"]) == len(pair.src) + len(pair.tgt) + tlm.OVERHEAD
    assert made["target_langs"].tolist() == made["langs"][made["chosen"]].tolist()


@pytest.fixture(scope="module")
def encoder(build: Any) -> Any:
    trainer, _ = build("camlm", "model.layers=3")
    return trainer.get_model().double().eval()


@settings(max_examples=40)
@given(pair=PAIRS, seed=st.integers(0, 99), leave=st.sampled_from([0.0, 0.3]), swap=st.integers(4, MASK - 1))
def test_camlm_leaks_nothing(encoder: Any, pair: Pair, seed: int, leave: float, swap: int) -> None:
    """What stands at a masked position of x reaches no other position of x, and none of y."""
    rule = MaskRule(0.4, leave, leave, MASK, 4, MASK)
    made = camlm.example(pair, rule, True, rng(seed))
    target = int(made["chosen"][seed % len(made["chosen"])])

    def losses(tokens: np.ndarray) -> torch.Tensor:
        inputs = {key: torch.from_numpy(made[key]) for key in ("positions", "sees", "shows")}
        hidden = encoder(torch.from_numpy(tokens), runs=[(1, len(tokens))], **inputs)
        return torch.log_softmax(encoder.lm_head.logits(hidden), -1)

    changed = made["tokens"].copy()
    changed[target] = swap
    with torch.no_grad():
        before, after = losses(made["tokens"]), losses(changed)
    others = np.arange(len(changed)) != target
    assert torch.equal(before[others], after[others])


@settings(max_examples=40)
@given(pair=PAIRS, seed=st.integers(0, 99), swap=st.integers(4, MASK - 1))
def test_camlm_predicts_x_from_y_alone(encoder: Any, pair: Pair, seed: int, swap: int) -> None:
    made = camlm.example(pair, MaskRule(0.4, 0, 0, MASK, 4, MASK), True, rng(seed))
    side = np.arange(len(made["tokens"])) > len(pair.src)
    masked = np.isin(np.arange(len(side)), made["chosen"])
    for which in (False, True):
        changed = made["tokens"].copy()
        changed[(side == which) & ~masked] = swap
        with torch.no_grad():
            inputs = {key: torch.from_numpy(made[key]) for key in ("positions", "sees", "shows")}
            before, after = (
                encoder(torch.from_numpy(tokens), runs=[(1, len(tokens))], **inputs)
                for tokens in (made["tokens"], changed)
            )
        assert torch.equal(before[masked & (side == which)], after[masked & (side == which)])


@given(st.integers(2, 60), st.integers(0, 99))
def test_clpc_exchanges_within_language_pairs(num: int, seed: int) -> None:
    samples = [{"pair_langs": np.array([i % 3, 1 + i % 2])} for i in range(num)]
    partners, right = clpc.exchange(samples, rng(seed))
    assert sorted(partners) == list(range(num))
    for index, partner in enumerate(partners):
        assert samples[index]["pair_langs"].tolist() == samples[partner]["pair_langs"].tolist()
        assert bool(right[index]) == (index == partner)


def test_clpc_makes_about_half_of_the_partners_wrong() -> None:
    samples = [{"pair_langs": np.array([0, 1])}] * 40
    right = np.concatenate([clpc.exchange(samples, rng(seed))[1] for seed in range(200)])
    assert right.mean() == pytest.approx(0.5, abs=0.02)


class Numbered:
    """Stands for a dataset whose batches are their numbers, in windows of three."""

    def __init__(self, length: int) -> None:
        self.length = length

    def windows(self, max_tokens: Any, max_sentences: Any, state: Any) -> Any:
        for start in range(state or 0, self.length, 3):
            yield start, [np.array([n]) for n in range(start, min(start + 3, self.length))]


def queues_of(lengths: list[int]) -> dict[str, Stream]:
    return {str(name): Stream(Numbered(length), 1) for name, length in enumerate(lengths)}  # type: ignore[arg-type]


@given(st.integers(0, 20), st.data())
def test_a_reader_goes_on_from_every_place(length: int, data: st.DataObject) -> None:
    reader = Stream(Numbered(length), 1)  # type: ignore[arg-type]
    done = data.draw(st.integers(0, length))
    for number in range(done):
        assert reader.used == number and reader.take().tolist() == [number]
    assert reader.has_next() == (done < length)
    again = Stream(Numbered(length), 1, used=reader.used, window=reader.window())  # type: ignore[arg-type]
    assert again.window()["before"] >= done - 3 or done < 3, "it reads from the window, not from the start"
    assert [int(again.take()[0]) for _ in range(length - done)] == list(range(done, length))
    assert not again.has_next()


QUEUES = st.lists(st.integers(1, 200), min_size=1, max_size=4)


@given(QUEUES, st.data())
def test_interleaving_realises_the_shares_and_repeats_nothing(
    lengths: list[int], data: st.DataObject
) -> None:
    weights = np.array(data.draw(st.lists(st.floats(0.1, 10), min_size=len(lengths), max_size=len(lengths))))
    queues = queues_of(lengths)
    order = []
    for (name,), _ in multi.in_turn(queues, weights):
        order.append((int(name), int(queues[name].take()[0])))
    assert len(set(order)) == len(order)
    shares = weights / weights.sum()
    for queue, share in enumerate(shares):
        taken = np.cumsum([which == queue for which, _ in order])
        assert np.abs(taken - share * np.arange(1, len(order) + 1)).max(initial=0) <= len(lengths)
    counts = np.bincount([which for which, _ in order], minlength=len(lengths))
    assert ((counts == lengths) | (counts < lengths)).all()
    assert (counts == lengths).any()


@given(QUEUES)
def test_joining_takes_one_batch_of_each_as_long_as_there_are(lengths: list[int]) -> None:
    queues = queues_of(lengths)
    joined = [[int(queues[name].take()[0]) for name in names] for names, _ in multi.all_at_once(queues)]
    assert joined == [[batch] * len(lengths) for batch in range(min(lengths))]


def test_a_schedule_moves_the_factor_of_a_loss(build: Any) -> None:
    _, task = build("mmlm+tlm", "mix=sum", "objectives.tlm.weight=2", "objectives.tlm.schedule=0:1,100:0")
    one = torch.ones(())
    loss = multi.Loss(one * 3, 3, one[None], torch.zeros(1, dtype=torch.int64))
    for update, wanted in ((0, 3.0), (50, 2.0), (100, 1.0), (999, 1.0)):
        task.num_updates = update
        total, divisor = task.combine({"mmlm": loss, "tlm": loss}, {})
        assert (float(total), divisor) == (wanted, 1)


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=40), st.integers(10, 40)
)
def test_xmlm_documents_cover_all_pairs_and_have_their_size(sizes: list[tuple[int, int]], room: int) -> None:
    starts = xmlm.document_starts(np.array(sizes), room)
    assert (starts[0], starts[-1]) == (0, len(sizes))
    assert (np.diff(starts) > 0).all()
    cut = np.minimum(np.array(sizes), room)
    sides = [[np.full(n, 9) for n in cut[:, side]] for side in range(2)]
    lengths = xmlm.alternating_lengths(cut.T, starts)
    for number, (begin, end) in enumerate(itertools.pairwise(starts)):
        for first in range(2):
            tokens, langs = xmlm.alternate([side[begin:end] for side in sides], (0, 1), first)
            assert len(tokens) - 1 == lengths[first, number] <= room
            switches = np.flatnonzero(np.diff(langs[1:])) + 1
            assert len(switches) == end - begin - 1


def mix_of(build: Any, *words: str) -> Any:
    _, task = build("mmlm+tlm", "objectives.tlm.pairs=en-th", "objectives.mmlm.tokens_per_sample=24", *words)
    task.load_dataset("train")
    return task.dataset("train")


def epoch_of(dataset: Any, epoch: int) -> list[tuple[str, int, int]]:
    """What an epoch of a mix takes: objective, its own epoch, example."""
    dataset.set_epoch(epoch)
    batches = dataset.batch_by_size(dataset.ordered_indices(), max_tokens=128)
    taken = []
    for index in np.concatenate(batches).tolist():
        number = int(np.searchsorted(dataset._offsets, index, side="right")) - 1
        name = list(dataset._parts)[number]
        taken.append((name, dataset._parts[name][0].epoch, index - int(dataset._offsets[number])))
    return taken


@pytest.mark.parametrize("words", [("mix=alternate", "objectives.tlm.weight=3"), ("mix=sum",)])
def test_every_part_of_a_mix_goes_through_its_own_epochs(build: Any, words: tuple[str, ...]) -> None:
    dataset = mix_of(build, *words)
    taken = [item for epoch in range(1, 31) for item in epoch_of(dataset, epoch)]
    assert len(set(taken)) == len(taken), "an example came twice in an epoch of its part"
    last = {name: max(epoch for whose, epoch, _ in taken if whose == name) for name in ("mmlm", "tlm")}
    assert last["mmlm"] != last["tlm"] and min(last.values()) > 1
    for name, end in last.items():
        lengths = {e: len([1 for n, epoch, _ in taken if (n, epoch) == (name, e)]) for e in range(1, end)}
        assert set(lengths.values()) == {len(dataset._parts[name][0])}, "an example was left out"


def test_a_mix_goes_on_where_it_stood(build: Any) -> None:
    words = ("mix=alternate", "objectives.tlm.weight=3")
    whole = mix_of(build, *words)
    wanted = [epoch_of(whole, epoch) for epoch in range(1, 12)]
    for stop in (1, 4, 9):
        before, after = mix_of(build, *words), mix_of(build, *words)
        for epoch in range(1, stop + 1):
            epoch_of(before, epoch)
        for epoch in (stop, stop + 1):
            after.restore_epoch(epoch, before.epoch_state(epoch))
            assert epoch_of(after, epoch) == wanted[epoch - 1]


def test_an_example_of_lines_is_one_paragraph_from_its_beginning(build: Any) -> None:
    room = 16
    _, task = build("mmlm", f"objectives.mmlm.tokens_per_sample={room}", "objectives.mmlm.lines=true")
    dataset = task.build_dataset("valid")
    paragraphs = set()
    for lang in task.langs:
        shard = shards.open_shard(task.data / lang / "valid")
        for start, size in zip(shard.starts(), shard.sizes, strict=True):
            if size > 1:
                paragraphs.add(tuple(shard.tokens[start : start + size][: room - 1].tolist()))
    seen = set()
    for index in range(len(dataset)):
        example = dataset[index]
        tokens = example["tokens"].copy()
        tokens[example["chosen"]] = example["target"]
        assert len(tokens) == dataset.sizes[index] <= room
        assert example["positions"].tolist() == list(range(len(tokens)))
        seen.add(tuple(tokens[1:].tolist()))
    assert seen == paragraphs
