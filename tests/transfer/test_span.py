"""Answer spans: windows over a passage, sub-tokens of an answer, and the answer's own characters back."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers

from tests.text.test_pre_split import byte_level, published
from xling.text import vocab as vocabulary
from xling.text.tokenizers.wordpiece import WordPieceProcessor, build_tokenizer
from xling.transfer.encode import BOS, EOS, encode_pieces
from xling.transfer.task import TASKS
from xling.transfer.tasks.span import MAX_ANSWER_PIECES, best_span


@dataclass
class Row:
    fields: dict[str, Any]
    label: Any = None
    id: str = field(default="q1")


@pytest.fixture(scope="module")
def processor(vocab: Path) -> Any:
    return vocabulary.load_processor(vocab)


_ODD = st.sampled_from(
    [
        "the",
        "boat",
        "ครูขายขนมปัง",
        "المعلمة",
        "中文字",
        "e\u0301",
        "ﬁne",
        "１２",
        "\u200b",
        "👩‍👩‍👧",
        "(1,000.5)",
        "  ",
    ]
)
AROUND = "".join(c for c in map(chr, range(0x3100)) if c.isspace()) + "\u200b\u2060\ufeff"
_PASSAGES = st.lists(_ODD | st.text(max_size=6), max_size=60).map(" ".join)


def pointed(windows: list[Any]) -> list[tuple[Any, np.ndarray]]:
    """Each window with logits that say what its targets say."""
    return [(w, 20.0 * np.stack([w["target"] & 1, w["target"] >> 1], axis=1)) for w in windows]


@given(_PASSAGES, st.text(max_size=60), st.integers(8, 48), st.data())
@settings(max_examples=200)
def test_windows_cover_the_passage_and_point_at_the_answer(
    processor: Any, context: str, question: str, max_length: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, max(0, len(context) - 1)))
    end = data.draw(st.integers(start, min(len(context), start + 12)))
    label = ((context[start:end], start),)
    windows = TASKS["span"].encode(
        processor, Row({"context": context, "question": question}, label), (), max_length
    )
    whole, seen = encode_pieces(processor, context), set()
    offsets = processor.encode(context, return_type="offset_mapping")["offsets"]
    for window in windows:
        tokens, chosen = window["tokens"].tolist(), window["chosen"].tolist()
        assert len(tokens) <= max_length and tokens[0] == BOS and tokens[-1] == EOS and chosen[0] == 0
        part = [tokens[i] for i in chosen[1:]]
        places = [i for i in range(len(whole) + 1) if whole[i : i + len(part)] == part]
        first = next(
            i
            for i in places
            if [list(o) for o in offsets[i : i + len(part)]] == window["offsets"][1:].tolist()
        )
        seen.update(range(first, first + len(part)))
        bits = window["target"]
        assert (bits & 1).sum() == 1 and (bits >> 1).sum() == 1, "one begin and one end in every window"
        assert int(np.argmax(bits & 1)) <= int(np.argmax(bits >> 1))
    assert seen == set(range(len(whole))), "no sub-token of the passage is lost"
    inside = [w for w in windows if w["target"][0] == 0]
    for window in inside:
        first, last = int(np.argmax(window["target"] & 1)), int(np.argmax(window["target"] >> 1))
        assert window["offsets"][first, 1] > start and window["offsets"][last, 0] < end
    # An answer of less than half a window lies whole in one of them.
    covered = [o for o in offsets if o[0] < end and o[1] > start]
    room = len(windows[0]["chosen"]) - 1
    if covered and len(covered) <= room - room // 2:
        assert inside
        if len(covered) <= MAX_ANSWER_PIECES:
            assert best_span(context, pointed(inside)) == context[covered[0][0] : covered[-1][1]].strip(
                AROUND
            )


def test_an_answer_in_every_script_comes_back_character_by_character(processor: Any) -> None:
    for context, answer in (
        ("The teacher sells fresh bread near the river.", "fresh bread"),
        ("المعلمة تبيع خبزا طازجا قرب النهر.", "خبزا طازجا"),
        ("ครูขายขนมปังสดใกล้แม่น้ำ", "ขนมปังสด"),
    ):
        row = Row({"context": context, "question": "the"}, ((answer, context.index(answer)),))
        windows = TASKS["span"].encode(processor, row, (), 64)
        found = best_span(context, pointed(windows))
        assert answer in found and len(found) <= len(answer) + 6


@pytest.fixture(scope="module")
def accents_stripped(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """BERT's uncased kind: accents and the signs of vowels have no piece."""
    folder = tmp_path_factory.mktemp("uncased")
    letters = {*"abcdefghijklmnopqrstuvwxyz.", *map(chr, range(0x904, 0x93A)), *map(chr, range(0xE01, 0xE2F))}
    pieces = sorted(letters | {f"##{letter}" for letter in letters})
    build_tokenizer(pieces, True, None, True).save(str(folder / "wordpiece.json"))
    return WordPieceProcessor(folder / "wordpiece.json")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("Le président habite à la cité dorée.", "la cité"),
        ("Ông ấy sống ở Hà Nội từ đó.", "Hà Nội"),
        ("राम की किताब दिल्ली में थी।", "दिल्ली"),
        ("ครูอยู่ที่นี่", "ครูอยู่"),
        ("Ona je v koší\u200d .", "koší\u200d"),
    ],
)
def test_an_answer_keeps_marks_that_have_no_piece(
    accents_stripped: Any, form: Any, context: str, answer: str
) -> None:
    context, answer = (unicodedata.normalize(form, text) for text in (context, answer))
    row = Row({"context": context, "question": "la"}, ((answer, context.index(answer)),))
    windows = TASKS["span"].encode(accents_stripped, row, (), 64)
    assert best_span(context, pointed(windows)) == answer


@pytest.mark.parametrize(
    ("form", "context", "answer"),
    [
        ("NFC", "나는 한국어 를 배운다", "한국어"),
        ("NFC", "저는 서울 에 산다", "저는"),
        ("NFKC", "これは ｶﾞﾗｽ です", "ｶﾞﾗｽ"),
        ("NFC", "\u1781\u17d2\u1789\u17bb\u17c6\u200b\u1791\u17c5\u200b", "\u1791\u17c5"),
    ],
)
def test_an_answer_keeps_letters_that_a_tokenizer_joins(
    tmp_path: Path, form: Any, context: str, answer: str
) -> None:
    """Decomposed Hangul, half-width kana and words between zero-width spaces, read by Qwen's or ModernBERT's kind."""
    made = byte_level(False)
    made.normalizer = normalizers.NFC() if form == "NFC" else normalizers.NFKC()
    context, answer = (unicodedata.normalize("NFD", text) for text in (context, answer))
    row = Row({"context": context, "question": "la"}, ((answer, context.index(answer)),))
    windows = TASKS["span"].encode(published(made, tmp_path), row, (), 256)
    assert best_span(context, pointed(windows)) == answer


def test_windows_start_half_a_window_apart_worked_by_hand(processor: Any) -> None:
    size = len(encode_pieces(processor, "the"))
    row = Row({"context": " ".join(["the"] * 10), "question": ""}, (("the", 16),))  # the fifth word
    room = 4 * size
    windows = TASKS["span"].encode(processor, row, (), room + 4)
    assert [int(w["offsets"][1, 0] + 1) // 4 for w in windows] == [0, 2, 4, 6]
    assert [w["target"].tolist()[0] for w in windows] == [3, 0, 0, 3], "only two windows hold the answer"


def test_a_long_question_is_cut_and_an_empty_passage_answers_nothing(processor: Any) -> None:
    row = Row({"context": "the boat", "question": "bread " * 99})
    (window,) = TASKS["span"].encode(processor, row, (), 128)
    assert window["chosen"][1] == 1 + 62 + 2, "half of the room, not 64"
    assert set(window["target"].tolist()) == {-1}
    assert window["segments"].tolist() == [0] * 64 + [1] * (len(window["tokens"]) - 64)
    (window,) = TASKS["span"].encode(processor, Row({"context": "", "question": "the"}, ()), (), 32)
    assert window["chosen"].tolist() == [0] and window["target"].tolist() == [3]
    assert best_span("", [(window, np.zeros((1, 2)))]) == ""


def test_the_best_span_worked_by_hand() -> None:
    context = "aa bb cc dd"
    window = {"offsets": np.array([[0, 0], [0, 2], [2, 5], [5, 8], [8, 11]])}
    scores = np.array([[0, 0], [1, 9], [0, 0], [5, 1], [0, 4]], dtype=np.float64)
    # The best end (aa) lies before the best start (cc), so: aa to aa with 10 beats cc to dd with 9.
    assert best_span(context, [(window, scores)]) == "aa"
    scores[1, 0] = -1  # aa: 8, cc to dd: 9
    assert best_span(context, [(window, scores)]) == "cc dd"
    # A window that points to <s> loses, however high its logits.
    other = {"offsets": np.array([[0, 0], [2, 5]])}
    assert best_span(context, [(other, np.array([[50.0, 50.0], [20.0, 20.0]])), (window, scores)]) == "cc dd"


def test_an_answer_is_not_longer_than_thirty_sub_tokens() -> None:
    count = MAX_ANSWER_PIECES + 5
    context = "x" * count
    window = {"offsets": np.array([[0, 0], *([i, i + 1] for i in range(count))])}
    scores = np.zeros((count + 1, 2))
    scores[1, 0] = scores[count, 1] = 9
    scores[MAX_ANSWER_PIECES, 1], scores[MAX_ANSWER_PIECES + 1, 1] = 1, 2
    assert best_span(context, [(window, scores)]) == context[:MAX_ANSWER_PIECES]
