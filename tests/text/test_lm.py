"""The n-gram model against a direct re-statement of the definition."""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from pathlib import Path

import kenlm
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xling.text.lm.kneser_ney import FALLBACK_DISCOUNTS, estimate, estimate_discounts
from xling.text.lm.ngrams import BOS, EOS, UNK, count_ngrams, read_tokens
from xling.text.lm.train import write_arpa

GOLDEN = Path(__file__).parent / "golden"
Gram = tuple[str, ...]


class Reference:
    """Modified Kneser-Ney word by word from its definition, with dictionaries and recursion."""

    def __init__(self, lines: list[str], order: int) -> None:
        sentences = [[BOS, *line.split(), EOS] for line in lines if line.split()]
        self.order = order
        self.raw = [
            Counter(tuple(s[i : i + n]) for s in sentences for i in range(len(s) - n + 1))
            for n in range(1, order + 1)
        ]
        self.words = {w for s in sentences for w in s} - {BOS} | {UNK}
        self.adjusted: list[dict[Gram, int]] = []
        for n in range(1, order + 1):
            table: dict[Gram, int] = {}
            for gram, count in self.raw[n - 1].items():
                if n == order or gram[0] == BOS:
                    table[gram] = count
                else:
                    table[gram] = sum(1 for longer in self.raw[n] if longer[1:] == gram)
            if n == 1 < order:
                del table[BOS,]
            elif n == 1:
                table.pop((BOS,))
            self.adjusted.append(table)
        self.discount = [self._discount(table) for table in self.adjusted]
        self.following: list[dict[Gram, list[Gram]]] = []
        for table in self.adjusted:
            by_context = defaultdict(list)
            for gram in table:
                by_context[gram[:-1]].append(gram)
            self.following.append(by_context)

    @staticmethod
    def _discount(table: dict[Gram, int]) -> list[float]:
        t = [sum(1 for a in table.values() if a == k) for k in range(5)]
        try:
            y = t[1] / (t[1] + 2 * t[2])
            found = [0.0] + [k - (k + 1) * y * t[k + 1] / t[k] for k in (1, 2, 3)]
        except ZeroDivisionError:
            return [0.0, *FALLBACK_DISCOUNTS]
        if t[4] == 0 or any(not 0 <= d <= k for k, d in enumerate(found)):
            return [0.0, *FALLBACK_DISCOUNTS]
        return found

    def probability(self, context: Gram, word: str) -> float:
        n = len(context) + 1
        lower = self.probability(context[1:], word) if context else 1 / len(self.words)
        grams = self.following[n - 1].get(context, [])
        if not grams:
            return lower
        table, discount = self.adjusted[n - 1], self.discount[n - 1]
        total = sum(table[g] for g in grams)
        gamma = sum(discount[min(3, table[g])] for g in grams) / total
        a = table.get((*context, word), 0)
        return (a - discount[min(3, a)]) / total + gamma * lower

    def score(self, line: str) -> float:
        """log10 probability of a line and its end; minus infinity where no mass is left to back off with."""
        words = [BOS, *(w if w in self.words else UNK for w in line.split()), EOS]
        probabilities = [
            self.probability(tuple(words[max(0, i - self.order + 1) : i]), words[i])
            for i in range(1, len(words))
        ]
        return sum(map(math.log10, probabilities)) if all(probabilities) else -math.inf


def train(lines: list[str], order: int, path: Path, prune: tuple[int, ...] = ()) -> kenlm.Model:
    vocabulary, tokens = read_tokens(lines)
    orders = count_ngrams(tokens, len(vocabulary), order)
    write_arpa(path, vocabulary, orders, estimate(orders, prune))
    return kenlm.Model(str(path))


def zipf_lines(seed: int, num_lines: int, num_words: int = 60) -> list[str]:
    rng = random.Random(seed)
    weights = [1 / (k + 1) for k in range(num_words)]
    lines = []
    for _ in range(num_lines):
        words = rng.choices(range(num_words), weights, k=rng.randint(1, 12))
        # Some words follow others, so that high orders matter.
        lines.append(" ".join(f"w{w} w{(w * 7) % num_words}" if w % 3 else f"w{w}" for w in words))
    return lines


@pytest.mark.parametrize("order", [2, 3, 5])
def test_equals_the_definition(order: int, tmp_path: Path) -> None:
    lines, unseen = zipf_lines(0, 150), [*zipf_lines(1, 30), "w1 never w2", "never", ""]
    reference = Reference(lines, order)
    model = train(lines, order, tmp_path / "lm.arpa")
    for line in [*lines[:20], *unseen]:
        assert model.score(line) == pytest.approx(reference.score(line), rel=1e-4, abs=1e-3)
    total_ours = sum(model.score(line) for line in unseen)
    total_reference = sum(reference.score(line) for line in unseen)
    num = sum(len(line.split()) + 1 for line in unseen)
    assert 10 ** (-total_ours / num) == pytest.approx(10 ** (-total_reference / num), rel=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=7).map(" ".join), min_size=1, max_size=12))
@example(["c", "c", "a c a", "c b a b a e", "d a a a d b a", "c"])  # no mass is left to back off with
def test_equals_the_definition_on_any_text(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    if not any(line.split() for line in lines):
        return
    model = train(lines, 3, tmp_path_factory.mktemp("lm") / "lm.arpa")
    reference = Reference(lines, 3)
    for line in [*lines, "a b zz c", "e d c b a"]:
        expected = reference.score(line)
        if expected == -math.inf:  # -99 in the file
            assert model.score(line) < -90
        else:
            assert model.score(line) == pytest.approx(expected, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("prune", [(), (0, 0, 1), (0, 1, 1, 2)])
def test_probabilities_sum_to_one_after_any_context(prune: tuple[int, ...], tmp_path: Path) -> None:
    lines = zipf_lines(2, 200)
    model = train(lines, 4, tmp_path / "lm.arpa", prune)
    vocabulary, _ = read_tokens(lines)
    for history in ("", "w0", "w1 w7", "w2 w14 w0", "w5 w5 w5 w5"):
        state, out = kenlm.State(), kenlm.State()
        model.BeginSentenceWrite(state)
        for word in history.split():
            model.BaseScore(state, word, out)
            state, out = out, kenlm.State()
        total = sum(10 ** model.BaseScore(state, word, out) for word in vocabulary if word != BOS)
        assert total == pytest.approx(1, abs=2e-4)


def test_pruning_removes_rare_ngrams_only(tmp_path: Path) -> None:
    lines = zipf_lines(3, 300)
    whole = train(lines, 3, tmp_path / "whole.arpa")
    pruned = train(lines, 3, tmp_path / "pruned.arpa", (0, 0, 1))
    vocabulary, tokens = read_tokens(lines)
    orders = count_ngrams(tokens, len(vocabulary), 3)
    head = (tmp_path / "pruned.arpa").read_text(encoding="utf-8").split("\n")[:4]
    expected = [len(orders[0]), len(orders[1]), int((orders[2].count > 1).sum())]
    assert head == ["\\data\\", *[f"ngram {n}={num}" for n, num in enumerate(expected, start=1)]]
    assert abs(whole.score(lines[0]) - pruned.score(lines[0])) < 1


def test_discounts_by_hand() -> None:
    # t1 = 10, t2 = 4, t3 = 2, t4 = 1: Y = 10/18; D1 = 1 - 2Y.4 = 0.5556, D2 = 2 - 3Y/2, D3 = 3 - 4Y/2
    counts = np.array([1] * 10 + [2] * 4 + [3] * 2 + [4] + [9])
    y = 10 / 18
    assert estimate_discounts(counts) == pytest.approx([0, 1 - 2 * y * 0.4, 2 - 1.5 * y, 3 - 2 * y])
    assert estimate_discounts(np.array([1, 1, 1])) == pytest.approx([0, *FALLBACK_DISCOUNTS])


def test_counts_stop_at_the_end_of_lines() -> None:
    vocabulary, tokens = read_tokens(["a b", "", "b a"])
    assert vocabulary == [UNK, BOS, EOS, "a", "b"]
    orders = count_ngrams(tokens, len(vocabulary), 3)
    grams = []
    for prefix, word, count in zip(orders[2].prefix, orders[2].word, orders[2].count, strict=True):
        pair = (vocabulary[orders[1].prefix[prefix]], vocabulary[orders[1].word[prefix]])
        grams.append((*pair, vocabulary[word], int(count)))
    assert sorted(grams) == [(BOS, "a", "b", 1), (BOS, "b", "a", 1), ("a", "b", EOS, 1), ("b", "a", EOS, 1)]
    assert read_tokens(["a b", "c d"], max_tokens=4)[0] == [UNK, BOS, EOS, "a", "b"]


@pytest.mark.parametrize("name", ["whole", "pruned"])
def test_equals_lmplz(name: str, tmp_path: Path) -> None:
    """Golden numbers of KenLM's lmplz (kenlm 0.3.0, --discount_fallback 0.5 1 1.5) on the same text."""
    golden = json.loads((GOLDEN / f"lmplz_{name}.json").read_text(encoding="utf-8"))
    model = train(zipf_lines(10, 400), golden["order"], tmp_path / "lm.arpa", tuple(golden["prune"]))
    head = (tmp_path / "lm.arpa").read_text(encoding="utf-8").split("\n")[1 : golden["order"] + 1]
    assert [int(line.split("=")[1]) for line in head] == golden["sizes"]
    scores = {line: model.score(line) for line in golden["scores"]}
    assert scores == pytest.approx(golden["scores"], abs=2e-3)
