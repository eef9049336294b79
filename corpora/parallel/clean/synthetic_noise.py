"""31 kinds of damage that sentence pairs have, added to clean ones, to measure what a chain of filters sees."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from xling.core.registry import Registry
from xling.text.words.units import split_units, unspaced_share

Pair = tuple[str, str]
_BLANKS_AND_QUOTES = re.compile(r"[\s\u200b\"“”«»]+")


@dataclass(frozen=True)
class CleanPairs:
    """Clean pairs, and the sentences that damage is made of.

    Attributes:
        pairs: all clean pairs, in order.
        other_texts: sentences in another language than both; empty where there are none.
        close_texts: sentences in a language close to the target's; empty where there are none.
    """

    pairs: Sequence[Pair]
    other_texts: Sequence[str] = ()
    close_texts: Sequence[str] = ()


NoiseKind = Callable[[int, CleanPairs, np.random.Generator], Pair | None]
"""Damages the pair of a number; None where that pair cannot be damaged so."""

KINDS: Registry[NoiseKind] = Registry("kind of noise")


def _register_on_target(name: str, damage: Callable[[str, np.random.Generator], str]) -> None:
    def kind(row: int, clean: CleanPairs, random: np.random.Generator) -> Pair | None:
        src, tgt = clean.pairs[row]
        damaged = damage(tgt, random)
        return (src, damaged) if damaged.strip() != tgt.strip() else None

    KINDS.add(name, kind)


def pieces(text: str) -> list[str]:
    """Words with the space behind them; single characters with their marks where there are no spaces."""
    if unspaced_share(text) < 0.5:
        return re.findall(r"\S+\s*", text)
    return re.findall(r"[^\W\d_][\u0300-\u036f\u0e31-\u0e4e\u0eb1-\u0ece\u102b-\u103e\u17b4-\u17d3]*|.", text)


def _draw_positions(count: int, share: float, random: np.random.Generator) -> list[int]:
    num_chosen = max(1, round(share * count))
    return sorted(random.choice(count, min(num_chosen, count), replace=False).tolist()) if count else []


def _insert_characters(share: float, characters: Sequence[str]) -> Callable[[str, np.random.Generator], str]:
    """Put some of ``characters`` between a share of the characters."""

    def damage(text: str, random: np.random.Generator) -> str:
        chars = list(text)
        for place in reversed(_draw_positions(len(chars), share, random)):
            chars.insert(place, characters[int(random.integers(len(characters)))])
        return "".join(chars)

    return damage


def _other_row(row: int, clean: CleanPairs, random: np.random.Generator) -> int:
    other = int(random.integers(len(clean.pairs) - 1))
    return other + (other >= row)


@KINDS.register("misaligned")
def _misalign(row: int, clean: CleanPairs, random: np.random.Generator) -> Pair | None:
    """The target of a neighbour, as when a line is lost."""
    step = int(random.choice([-2, -1, 1, 2]))
    return clean.pairs[row][0], clean.pairs[(row + step) % len(clean.pairs)][1]


@KINDS.register("random")
def _random_target(row: int, clean: CleanPairs, random: np.random.Generator) -> Pair | None:
    """The target of any pair of similar length."""
    src, tgt = clean.pairs[row]
    others = [_other_row(row, clean, random) for _ in range(50)]
    best = min(others, key=lambda i: abs(len(clean.pairs[i][1]) - len(tgt)))
    return src, clean.pairs[best][1]


@KINDS.register("swapped")
def _swap_sides(row: int, clean: CleanPairs, random: np.random.Generator) -> Pair | None:
    return clean.pairs[row][1], clean.pairs[row][0]


@KINDS.register("copied")
def _copy_source(row: int, clean: CleanPairs, random: np.random.Generator) -> Pair | None:
    return clean.pairs[row][0], clean.pairs[row][0]


@KINDS.register("half untranslated")
def _leave_half_untranslated(row: int, clean: CleanPairs, random: np.random.Generator) -> Pair | None:
    """The target's second half in the source language."""
    src, tgt = clean.pairs[row]
    left, right = pieces(tgt), pieces(src)
    if min(len(left), len(right)) < 4:
        return None
    return src, f"{''.join(left[: len(left) // 2]).strip()} {''.join(right[len(right) // 2 :])}"


@KINDS.register("wrong language")
def _replace_by_other_language(row: int, clean: CleanPairs, random: np.random.Generator) -> Pair | None:
    if not clean.other_texts:
        return None
    return clean.pairs[row][0], clean.other_texts[int(random.integers(len(clean.other_texts)))]


@KINDS.register("close language")
def _replace_by_close_language(row: int, clean: CleanPairs, random: np.random.Generator) -> Pair | None:
    if not clean.close_texts:
        return None
    return clean.pairs[row][0], clean.close_texts[int(random.integers(len(clean.close_texts)))]


@KINDS.register("extra sentence")
def _add_sentence(row: int, clean: CleanPairs, random: np.random.Generator) -> Pair | None:
    src, tgt = clean.pairs[row]
    return src, f"{tgt} {clean.pairs[_other_row(row, clean, random)][1]}"


@KINDS.register("missing sentence")
def _remove_sentence(row: int, clean: CleanPairs, random: np.random.Generator) -> Pair | None:
    """A source of two sentences for a target of one."""
    src, tgt = clean.pairs[row]
    return f"{src} {clean.pairs[_other_row(row, clean, random)][0]}", tgt


def _cut_in_half(text: str, random: np.random.Generator) -> str:
    parts = pieces(text)
    return "".join(parts[: len(parts) // 2]).strip() if len(parts) > 3 else text


def _shuffle_words(text: str, random: np.random.Generator) -> str:
    parts = [part.strip() for part in pieces(text)]
    joint = " " if unspaced_share(text) < 0.5 else ""
    return joint.join(parts[i] for i in random.permutation(len(parts))) if len(parts) > 3 else text


def _replace_by_gibberish(text: str, random: np.random.Generator) -> str:
    """Every letter replaced by another letter of the same text."""
    letters = [char for char in text if char.isalpha()]
    return "".join(letters[int(random.integers(len(letters)))] if char.isalpha() else char for char in text)


def _question_marks(text: str, random: np.random.Generator) -> str:
    """Every letter that ASCII lacks as a question mark, as a wrong encoding leaves them."""
    lost = "".join(
        "?" if char.isalpha() and not char.isascii() else char for char in unicodedata.normalize("NFC", text)
    )
    return re.sub(r"[\u0300-\u036f]", "", lost)


def _change_digit(text: str, random: np.random.Generator) -> str:
    digits = [match.start() for match in re.finditer(r"[0-9]", text)]
    if not digits:
        return text
    place = digits[int(random.integers(len(digits)))]
    digit = (int(text[place]) + int(random.integers(1, 10))) % 10
    return f"{text[:place]}{digit or 1 if text[place] != '1' else digit or 2}{text[place + 1 :]}"


def _change_numbers(text: str, random: np.random.Generator) -> str:
    return re.sub(
        r"[0-9]+", lambda m: str(int(random.integers(1, 9))) + str(int(random.integers(10, 999))), text
    )


def _add_word(text: str, random: np.random.Generator) -> str:
    parts = pieces(text)
    extra = parts[int(random.integers(len(parts)))].strip()
    place = int(random.integers(1, len(parts) + 1))
    joint = " " if unspaced_share(text) < 0.5 else ""
    return joint.join(
        [*(part.strip() for part in parts[:place]), extra, *(part.strip() for part in parts[place:])]
    )


_register_on_target("empty", lambda text, random: "")
_register_on_target("half target", _cut_in_half)
_register_on_target("shuffled", _shuffle_words)
_register_on_target("gibberish", _replace_by_gibberish)
_register_on_target("repeated", lambda text, random: " ".join(["".join(pieces(text)[:3]).strip()] * 5))
_register_on_target("letter-spaced", lambda text, random: " ".join(text.replace(" ", "  ")))
_register_on_target("control characters", _insert_characters(0.1, ["\x07", "\x1b", "\x8f", "\x00"]))
_register_on_target("zero-width", _insert_characters(0.1, ["\u200b", "\u2060", "\ufeff", "\u202e"]))
_register_on_target("replacement", _insert_characters(0.1, ["\ufffd"]))
_register_on_target("mojibake", lambda text, random: text.encode().decode("cp1252", "replace"))
_register_on_target("question marks", _question_marks)
_register_on_target("entities", lambda text, random: text.replace(" ", "&nbsp;", 2) + "&quot;")
_register_on_target("html", lambda text, random: f'<div class="text"><b>{text}</b></div>')
_register_on_target("bbcode", lambda text, random: f"[b]{text}[/b] [url=x]link[/url]")
_register_on_target("css", lambda text, random: f".main {{ color: #fff; margin: 0 }} {text}")
_register_on_target("script", lambda text, random: f"function go() {{ return x; }} {text}")
_register_on_target("punctuation", lambda text, random: text + " !!! ??? ... --- ***")
_register_on_target("one digit", _change_digit)
_register_on_target("other numbers", _change_numbers)
_register_on_target("address", lambda text, random: f"{text} www.example.org")


@KINDS.register("duplicate")
def _duplicate(row: int, clean: CleanPairs, random: np.random.Generator) -> Pair | None:
    return clean.pairs[row]


@KINDS.register("near-duplicate")
def _near_duplicate(row: int, clean: CleanPairs, random: np.random.Generator) -> Pair | None:
    """A word more on the target side."""
    src, tgt = clean.pairs[row]
    return (src, _add_word(tgt, random)) if len(split_units(tgt)) > 3 else None


def is_restored(pair: Pair, clean: Pair) -> bool:
    """Whether a pair reads as one that was not damaged; white space and quotes do not count."""
    return [_BLANKS_AND_QUOTES.sub("", text) for text in pair] == [
        _BLANKS_AND_QUOTES.sub("", text) for text in clean
    ]


COPY_KINDS = frozenset({"duplicate", "near-duplicate"})
"""Kinds that are noise only beside the pair that they copy."""
