"""Endless, seeded streams of everything the toy world yields; item i depends on (seed, split, i) alone."""

from functools import lru_cache

from xling.corpora.toyworld.draw import Draw, digest
from xling.corpora.toyworld.meaning import Meaning
from xling.corpora.toyworld.relations import pair
from xling.corpora.toyworld.world import Names, Sampler, draw_document

SPLITS = ("train", "dev", "test")
_BUCKETS = {"train": range(6), "dev": range(6, 8), "test": range(8, 10)}


def is_in_split(split: str, *meanings: Meaning) -> bool:
    """Return whether ``meanings`` belong to ``split``; a hash assigns splits, so they are disjoint."""
    return digest("split", *meanings) % 10 in _BUCKETS[split]


def mono_meanings(seed: int, lang: str, index: int) -> list[Meaning]:
    """Return the clauses of document ``index``; each language has different documents."""
    return draw_document(Draw(seed, "mono", lang, index))


def para_meaning(seed: int, src_lang: str, tgt_lang: str, index: int) -> Meaning:
    """Return the clause behind sentence pair ``index``."""
    return Sampler(Draw(seed, "para", src_lang, tgt_lang, index), Names("all")).meaning()


@lru_cache(maxsize=1 << 14)
def ner_meaning(seed: int, split: str, index: int) -> Meaning:
    """Return the clause behind tagged sentence ``index`` of ``split``, the same in every language."""
    names = Names("train" if split == "train" else "test")
    sampler = Sampler(Draw(seed, "ner", split, index), names)
    while not is_in_split(split, meaning := sampler.meaning()):
        pass
    return meaning


@lru_cache(maxsize=1 << 14)
def nli_pair(seed: int, split: str, index: int) -> tuple[Meaning, Meaning, str]:
    """Return premise, hypothesis and label ``index`` of ``split``, the same in every language."""
    draw, names = Draw(seed, "nli", split, index), Names("all")
    while True:
        premise, hypothesis, label = pair(draw, names)
        if is_in_split(split, premise, hypothesis):
            return premise, hypothesis, label
