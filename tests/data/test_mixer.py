"""Languages by n^alpha, items in endless permutations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.sampling import alpha_shares, realised_alpha
from xling.data import mixer
from xling.data.mixer import Draw, Order, epoch_counts


def draw_epoch(num_items: dict[str, int], counts: dict[str, int], seed: int, epoch: int) -> Draw:
    order = Order(num_items, counts, seed, epoch)
    windows = [order.window(number) for number in range(order.num_windows)]
    for number, window in enumerate(windows):
        assert len(window.items) == order.start(number + 1) - order.start(number)
    langs, items = ([getattr(window, name) for window in windows] for name in ("langs", "items"))
    return Draw(np.concatenate(langs), np.concatenate(items))


_SIZES = st.dictionaries(
    st.sampled_from(["en", "fr", "sw", "th", "ha"]),
    st.tuples(st.integers(1, 60), st.integers(1, 9)),
    min_size=1,
)


@given(_SIZES, st.floats(0, 1), st.integers(1, 9), st.integers(1, 4))
def test_every_item_is_seen_once_before_any_is_seen_again(
    sizes: dict[str, tuple[int, int]], alpha: float, seed: int, epochs: int
) -> None:
    num_items = {lang: n for lang, (n, _) in sizes.items()}
    num_tokens = {lang: n * mean for lang, (n, mean) in sizes.items()}
    counts = epoch_counts(num_items, num_tokens, alpha)
    streams: dict[str, list[int]] = {lang: [] for lang in sizes}
    for epoch in range(1, epochs + 1):
        drawn = draw_epoch(num_items, counts, seed, epoch)
        assert len(drawn.langs) == len(drawn.items) == sum(counts.values())
        for index, lang in enumerate(num_items):
            own = drawn.items[drawn.langs == index]
            assert len(own) == counts[lang]
            streams[lang] += own.tolist()
            seen = Counter(streams[lang])
            passes, rest = divmod(len(streams[lang]), num_items[lang])
            assert set(seen.values()) <= {passes, passes + 1} and set(seen) <= set(range(num_items[lang]))
            assert sum(count == passes + 1 for count in seen.values()) == rest


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.7, 1.0])
def test_tokens_follow_the_shares_within_a_hundredth(alpha: float) -> None:
    # Items of different mean lengths: shares count tokens, not items.
    num_items = {"en": 400_000, "fr": 90_000, "sw": 3_000, "ha": 500}
    num_tokens = {"en": 100_000_000, "fr": 9_000_000, "sw": 450_000, "ha": 10_000}
    counts = epoch_counts(num_items, num_tokens, alpha)
    realised = {lang: counts[lang] * num_tokens[lang] / num_items[lang] for lang in counts}
    total = sum(realised.values())
    for lang, share in alpha_shares(num_tokens, alpha).items():
        assert realised[lang] / total == pytest.approx(share, rel=0.01)
    drawn = {lang: round(tokens) for lang, tokens in realised.items()}
    assert realised_alpha(num_tokens, drawn) == pytest.approx(alpha, abs=0.01)
    assert total == pytest.approx(sum(num_tokens.values()), rel=0.01)


def test_blocks_of_the_tiny_corpus_follow_the_shares(shards: Path) -> None:
    from fairseq.data import Dictionary

    from xling.objectives.mmlm import Mmlm
    from xling.objectives.settings import MmlmConfig

    dictionary = Dictionary.load(str(shards / "dict.txt"))
    dictionary.add_symbol("<mask>")
    langs = ["ar", "en", "th"]
    made = Mmlm(MmlmConfig(tokens_per_sample=8, alpha=0.3, seed=1), dictionary, langs).dataset(
        shards, "train"
    )
    sizes = {lang: (shards / lang / "train.bin").stat().st_size // 2 for lang in langs}
    tokens: Counter[str] = Counter()
    for epoch in range(1, 6):
        made.set_epoch(epoch)
        for index in range(len(made)):
            tokens[langs[made.drawn(index)[0]]] += int(made.sizes[index]) - 1
    for lang, share in alpha_shares(sizes, 0.3).items():
        assert tokens[lang] / tokens.total() == pytest.approx(share, rel=0.01)


def test_the_order_seeded_and_epoch_alone() -> None:
    items, counts = {"en": 50, "sw": 7}, {"en": 40, "sw": 20}
    first, again = draw_epoch(items, counts, 1, 3), draw_epoch(items, counts, 1, 3)
    assert (first.items == again.items).all() and (first.langs == again.langs).all()
    for seed, epoch in ((2, 3), (1, 4)):
        other = draw_epoch(items, counts, seed, epoch)
        assert (first.items != other.items).any() and (first.langs != other.langs).any()


def test_a_language_keeps_its_order_when_another_joins() -> None:
    alone = draw_epoch({"sw": 90}, {"sw": 20}, 1, 2)
    joined = draw_epoch({"en": 5, "sw": 90}, {"en": 5, "sw": 20}, 1, 2)
    assert Counter(alone.items.tolist()) == Counter(joined.items[joined.langs == 1].tolist())


def test_empty_languages_are_left_out_and_small_ones_kept() -> None:
    counts = epoch_counts({"en": 1000, "xx": 0, "sw": 1}, {"en": 10**9, "xx": 0, "sw": 1}, 1.0)
    assert counts == {"en": 1000, "sw": 1}
    drawn = draw_epoch({"en": 1000, "xx": 0, "sw": 1}, counts, 1, 1)
    assert np.bincount(drawn.langs, minlength=3).tolist() == [1000, 0, 1]


@given(_SIZES, st.floats(0, 1), st.integers(1, 9), st.booleans())
def test_windows_hold_the_same_epoch_with_the_same_share_of_each_language(
    sizes: dict[str, tuple[int, int]], alpha: float, seed: int, in_chunks: bool
) -> None:
    num_items = {lang: n for lang, (n, _) in sizes.items()}
    counts = epoch_counts(num_items, {lang: n * mean for lang, (n, mean) in sizes.items()}, alpha)
    reading = mixer.Reading(4 if in_chunks else 0, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixer, "WINDOW", 16)
        order = Order(num_items, counts, seed, 2, reading=reading)
        drawn: Counter[tuple[int, int]] = Counter()
        for number in range(order.num_windows):
            window = order.window(number)
            drawn.update(zip(window.langs.tolist(), window.items.tolist(), strict=True))
            assert {order.window_of(order.start(number) + i) for i in range(len(window.items))} <= {number}
            for index, count in enumerate(counts.values()):
                assert abs((window.langs == index).sum() - count / order.num_windows) < 1
    assert order.start(order.num_windows) == order.total == drawn.total() == sum(counts.values())
    for index, (lang, n) in enumerate(num_items.items()):
        first = counts[lang] % n  # draws of the first epoch in a pass that it did not finish
        times = [drawn[index, item] for item in range(n)]
        assert sum(times) == counts[lang]
        assert max(times) - min(times) <= (1 if first == 0 or counts[lang] % n == 0 else 2)


def test_validation_keeps_the_order_of_the_files_in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixer, "WINDOW", 3)
    order = Order({"en": 5, "xx": 0, "sw": 3}, {"en": 5, "xx": 0, "sw": 3}, 1, 1, shuffled=False)
    drawn = [order.window(number) for number in range(order.num_windows)]
    assert len(drawn) == 3
    assert np.concatenate([d.langs for d in drawn]).tolist() == [0] * 5 + [2] * 3
    assert np.concatenate([d.items for d in drawn]).tolist() == [0, 1, 2, 3, 4, 0, 1, 2]


def test_a_language_without_a_count_has_no_draws() -> None:
    order = Order({"en": 5, "sw": 3, "xx": 0}, {"en": 5, "xx": 2}, 1, 1)
    assert (order.total, order.num_windows) == (5, 1)
    assert set(order.window(0).langs.tolist()) == {0}
    assert Order({"en": 5}, {}, 1, 1).num_windows == 1
