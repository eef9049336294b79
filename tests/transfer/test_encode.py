"""Words, texts and pairs into sub-tokens: nothing is lost, nothing is counted twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.text import vocab as vocabulary
from xling.transfer.encode import BOS, EOS, UNK, encode_pieces, truncate_pair
from xling.transfer.task import TASKS

LABELS = ("O", "B-PER", "I-PER")


@dataclass
class Row:
    fields: dict[str, Any]
    label: Any = None
    id: str = field(default="r1")


@pytest.fixture(scope="module")
def processor(vocab: Path) -> Any:
    return vocabulary.load_processor(vocab)


_ODD = st.sampled_from(
    ["\u200b", "\u200d\u200d", "\ufeff", "👩‍👩‍👧‍👦", "🇹🇿", "", " ", "\u3000", "▁", "▁▁the", "é", "e\u0301", "ﬁ",
     "ครูขาย", "المعلمة", "بـــيت", "字" * 40, "ab" * 90, "<s>", "</s>", "<mask>", "\x00", "1,000.5", "don't"]
)  # fmt: skip
_WORDS = st.lists(_ODD | st.text(max_size=12), max_size=60)


@given(_WORDS, st.integers(8, 64), st.data())
@settings(max_examples=150)
def test_every_word_has_its_label_once_in_order(
    processor: Any, words: list[str], max_length: int, data: st.DataObject
) -> None:
    tags = [data.draw(st.sampled_from(LABELS)) for _ in words]
    windows = TASKS["tag"].encode(processor, Row({"tokens": tuple(words)}, tuple(tags)), LABELS, max_length)
    firsts, targets, inner = [], [], []
    for window in windows:
        tokens = window["tokens"].tolist()
        assert 2 <= len(tokens) <= max_length and tokens[0] == BOS and tokens[-1] == EOS
        assert window["positions"].tolist() == list(range(len(tokens)))
        chosen = window["chosen"].tolist()
        assert chosen == sorted(set(chosen)) and all(0 < c < len(tokens) - 1 for c in chosen)
        assert len(chosen) > 0 or not words
        firsts += [tokens[c] for c in chosen]
        targets += window["target"].tolist()
        inner += tokens[1:-1]
    wanted = [encode_pieces(processor, word)[: max_length - 2] or [UNK] for word in words]
    assert targets == [LABELS.index(tag) for tag in tags]
    assert firsts == [word[0] for word in wanted]
    assert inner == [piece for word in wanted for piece in word]


def test_windows_are_cut_between_words_worked_by_hand(processor: Any) -> None:
    words = ("the",) * 5
    size = len(encode_pieces(processor, "the"))
    windows = TASKS["tag"].encode(processor, Row({"tokens": words}, ("O",) * 5), LABELS, 2 + 2 * size)
    assert [len(window["chosen"]) for window in windows] == [2, 2, 1]
    assert windows[0]["chosen"].tolist() == [1, 1 + size]


def test_prediction_needs_no_labels(processor: Any) -> None:
    (window,) = TASKS["tag"].encode(processor, Row({"tokens": ("the", "boat")}), LABELS, 32)
    assert window["target"].tolist() == [-1, -1]
    (window,) = TASKS["classify"].encode(processor, Row({"text": "the boat"}), LABELS, 32)
    assert window["target"].tolist() == [-1] and window["chosen"].tolist() == [0]


@pytest.mark.parametrize("kind", ["tag", "classify"])
def test_an_unknown_label_is_a_user_error(processor: Any, kind: Any) -> None:
    row = Row({"tokens": ("the",), "text": "the"}, ("B-PRE",) if kind == "tag" else "B-PRE")
    with pytest.raises(
        UserError, match=r"unknown label 'B-PRE'; fix: did you mean 'B-PER'.*valid: B-PER, I-PER, O"
    ):
        TASKS[kind].encode(processor, row, LABELS, 32)


def test_words_and_tags_must_be_as_many(processor: Any) -> None:
    with pytest.raises(AssertionError, match="row r1: 2 words but 1 tags"):
        TASKS["tag"].encode(processor, Row({"tokens": ("a", "b")}, ("O",)), LABELS, 32)


@given(st.text(max_size=80), st.integers(8, 40))
def test_a_text_is_cut_at_its_end(processor: Any, text: str, max_length: int) -> None:
    (window,) = TASKS["classify"].encode(processor, Row({"text": text}, "O"), LABELS, max_length)
    tokens, whole = window["tokens"].tolist(), encode_pieces(processor, text)
    assert tokens == [BOS, *whole[: max_length - 2], EOS] and len(tokens) <= max_length
    assert window["chosen"].tolist() == [0] and window["target"].tolist() == [0]


@given(st.text(max_size=80), st.text(max_size=80), st.integers(8, 40))
def test_a_pair_is_separated_and_fits(processor: Any, first: str, second: str, max_length: int) -> None:
    row = Row({"text_a": first, "text_b": second}, "I-PER")
    (window,) = TASKS["pair"].encode(processor, row, LABELS, max_length)
    tokens = window["tokens"].tolist()
    a, b = truncate_pair(encode_pieces(processor, first), encode_pieces(processor, second), max_length - 4)
    assert tokens == [BOS, *a, EOS, EOS, *b, EOS] and len(tokens) <= max_length
    assert window["target"].tolist() == [2]
    assert window["sides"].tolist() == [0, *[1] * len(a), 0, 0, *[2] * len(b), 0]
    assert window["segments"].tolist() == [0] * (len(a) + 2) + [1] * (len(b) + 2)


_SIDE = st.integers(0, 40).map(lambda n: list(range(n)))


@given(_SIDE, _SIDE, st.integers(0, 50))
def test_fitting_drops_no_more_than_it_must(first: list[int], second: list[int], room: int) -> None:
    a, b = truncate_pair(first, second, room)
    assert a == first[: len(a)] and b == second[: len(b)], "cut from the end"
    assert len(a) + len(b) == min(room, len(first) + len(second)), "it fits and fills the room"
    # The longer side is cut first; both only when each is longer than half the room.
    half = room // 2
    if len(first) <= half:
        assert a == first
    if len(second) <= half:
        assert b == second
    if len(a) < len(first) and len(b) < len(second):
        assert abs(len(a) - len(b)) <= 1
    if room >= 2:
        assert bool(a) == bool(first) and bool(b) == bool(second), "no side is emptied"


def test_pieces_are_numbered_as_in_the_dictionary(processor: Any, vocab: Path) -> None:
    from fairseq.data import Dictionary

    dictionary = Dictionary.load(str(vocab / "dict.txt"))
    text = "The teacher sells fresh bread"
    assert [dictionary[i] for i in encode_pieces(processor, text)] == processor.encode(text, out_type=str)
    assert UNK in encode_pieces(processor, "Ω")


@pytest.mark.parametrize(("question", "order"), [("cause", (1, 0)), ("effect", (0, 1))])
def test_alternatives_are_pairs_of_cause_and_effect(
    processor: Any, question: str, order: tuple[int, int]
) -> None:
    choices = ("the boat", "two books")
    row = Row({"premise": "fresh bread", "question": question, "choices": choices}, 1)
    windows = TASKS["choice"].encode(processor, row, (), 40)
    assert [window["target"].tolist() for window in windows] == [[0], [1]]
    for window, choice in zip(windows, choices, strict=True):
        first, second = ((row.fields["premise"], choice)[i] for i in order)
        ids = [BOS, *encode_pieces(processor, first), EOS, EOS, *encode_pieces(processor, second), EOS]
        assert window["tokens"].tolist() == ids and window["chosen"].tolist() == [0]
    unknown = TASKS["choice"].encode(processor, row, (), 40, labelled=False)
    assert [window["target"].tolist() for window in unknown] == [[-1], [-1]]


def test_an_intent_stands_once_before_the_slots_of_all_windows(processor: Any) -> None:
    labels = ("intent:ask", "intent:tell", "O", "B-PER")
    row = Row({"tokens": ("the",) * 5}, ("tell", ("O", "B-PER", "O", "O", "B-PER")))
    size = len(encode_pieces(processor, "the"))
    windows = TASKS["intent_slots"].encode(processor, row, labels, 2 + 2 * size)
    assert [window["chosen"].tolist() for window in windows] == [[0, 1, 1 + size], [1, 1 + size], [1]]
    assert [t for window in windows for t in window["target"].tolist()] == [1, 2, 3, 2, 2, 3]
    free = TASKS["intent_slots"].encode(
        processor, Row({"tokens": ("the",)}, ("new", ("B-NEW",))), labels, 9, False
    )
    assert free[0]["target"].tolist() == [-1, -1]
