"""Words of scripts without spaces, found with lists that are given and a lexicon learned from the text itself.

A run of such a script is cut into the fewest and likeliest words: those of the lists (dictionaries, phrase tables) come
before pieces learned from the text, and of the lists the longest. Neighbours stay together where the text does not show
whether a word ends between them: they occur together much more often than by chance, another cut is nearly as likely,
or one of them is too short to be known. Words of closed classes are cut apart before all that
(`xling.text.words.borders`). So what is cut here may be several words, and seldom is a part of one. No cut
is made within a consonant with its vowels and marks, and a zero-width space always is one.

Sources: Kudo 2018, Subword regularization, section 3.2 (the unigram model; trained by sentencepiece); Church and Hanks
1990 (pointwise mutual information).
"""

import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise

import sentencepiece

from xling.text.pairs import word_spans
from xling.text.words.borders import certain_borders
from xling.text.words.units import UNSPACED_CLASS, combining_marks

CHARACTERS_PER_PIECE = 10
MIN_PIECES, MAX_PIECES = 200, 8000
MAX_LENGTH = 8
"""Characters of a learned word."""
MAX_INFORMATION = 1.0
"""Pointwise mutual information, in nats, from which two neighbours are not cut apart."""
MAX_INFORMATION_SHARE = 0.5
"""The same as a share of what it is for two that never occur apart; it counts in short texts."""

CLEAR_MARGIN = 8.0
"""Nats by which a cut must be likelier than every cut without this border: about the cost of a learned piece."""

# A word of a list costs less than any learned one (5 to 15 nats), so that lists come first and their longest words win.
_LISTED_SCORE, _UNKNOWN_SCORE = -1.0, -20.0
_JOINERS = "\u200c\u200d"
# Scripts in which a letter with its signs is not a word; a Chinese character or a kana may be one.
_ALPHABETS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17df"
_ALPHABET_CHARACTER = re.compile(f"[{_ALPHABETS}]")
_KATAKANA = re.compile("[\u30a1-\u30ff\u31f0-\u31ff]")
_UNSPACED_RUN = re.compile(f"(?:[{UNSPACED_CLASS}][{combining_marks()}{_JOINERS}]*)+")
# Vowels and signs behind their letter that Unicode has as letters, and small kana.
_ATTACHED_CHARACTERS = (
    f"{combining_marks()}{_JOINERS}\u0e30\u0e32\u0e33\u0e45\u0e46\u0eb0\u0eb2\u0eb3\u0ebd\u0ec6\u17b4-\u17d3\u17dd"
    "\u3005\u303b\u3041\u3043\u3045\u3047\u3049\u3063\u3083\u3085\u3087\u308e\u309d\u309e\u30a1\u30a3\u30a5\u30a7"
    "\u30a9\u30c3\u30e3\u30e5\u30e7\u30ee\u30fc-\u30fe"
)
_CLUSTER = re.compile(
    "[\u0e40-\u0e44\u0ec0-\u0ec4]*.(?:"  # a vowel that is written before its consonant
    f"[{_ATTACHED_CHARACTERS}]"
    "|(?<=[\u17d2\u1039])[\u1000-\u109f\u1780-\u17b3]"  # a consonant below another
    "|[\u1000-\u1021\u103f](?=\u1037?\u103a)"  # a consonant that ends a syllable
    ")*",
    re.DOTALL,
)

_BASE_LETTER = re.compile(f"(?=[{UNSPACED_CLASS}])[^{_ATTACHED_CHARACTERS}]")
_BYTE_OF_EAST_ASIAN = re.compile("<0xE[3-9]>")


def begins_unspaced_word(piece: str) -> bool:
    """Return whether a piece of a vocabulary begins a word of a script without spaces, wherever it stands in a run.

    It has a letter of such a script, or is the first byte of a kana or Chinese character. Signs alone hang on the
    letter before them. The pieces of a unigram model are its words, as in `Segmenter`.
    """
    return bool(_BASE_LETTER.search(piece) or _BYTE_OF_EAST_ASIAN.fullmatch(piece))


def split_clusters(run: str) -> list[str]:
    """The smallest pieces of a run that may be words: a letter with the vowels, signs and marks that hang on it."""
    return _CLUSTER.findall(run)


class Segmenter:
    """Cuts text into words, those of scripts without spaces too."""

    def __init__(self, texts: Iterable[str], words: Iterable[str] = (), lang: str = "") -> None:
        """Learn from texts of one language.

        Args:
            texts: sentences; what is to be cut later should be among them.
            words: known words of the language.
            lang: our code of the language; "" cuts without its closed classes.
        """
        self._lang = lang
        runs = [
            run
            for text in texts
            for match in _UNSPACED_RUN.finditer(text)
            for run in self._split_at_borders(match.group())
        ]
        self._scores = _learn_pieces(runs)
        listed_words = {word for given in words if (word := given.strip()) and _UNSPACED_RUN.fullmatch(word)}
        self._scores |= dict.fromkeys(
            (word for word in listed_words if len(split_clusters(word)) > 1), _LISTED_SCORE
        )
        self._listed_words = listed_words
        self._max_clusters = max((len(split_clusters(word)) for word in self._scores), default=1)
        self._piece_counts: Counter[str] = Counter()
        self._pair_counts: Counter[tuple[str, str]] = Counter()
        for run in runs:
            pieces, _ = self._best_split(run)
            self._piece_counts.update(pieces)
            self._pair_counts.update(pairwise(pieces))
        self._num_pieces = max(1, self._piece_counts.total())

    def word_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the places of the words of ``text``, as `xling.text.pairs.word_spans` does for characters."""
        pieces: list[tuple[int, int]] = []
        run_at = {match.start(): match for match in _UNSPACED_RUN.finditer(text)}
        run_end = 0
        for start, end in word_spans(text):
            if start < run_end:
                continue
            if match := run_at.get(start):
                run_end = match.end()
                for word in chain.from_iterable(
                    map(self._split_words, self._split_at_borders(match.group()))
                ):
                    pieces.append((start, start + len(word)))
                    start += len(word)
            else:
                pieces.append((start, end))
        return pieces

    def _split_at_borders(self, run: str) -> list[str]:
        """Split a run of letters where a word ends beyond doubt."""
        cluster_ends = set(accumulate(map(len, split_clusters(run))))
        borders = (place for place in certain_borders(run, self._lang) if place in cluster_ends)
        return [run[start:end] for start, end in pairwise((0, *borders, len(run)))]

    def _split_words(self, run: str) -> list[str]:
        """Split a run of letters into words; neighbours that belong together become one."""
        pieces, is_clear = self._best_split(run)
        merged = pieces[:1]
        for left, right, is_border_clear in zip(pieces, pieces[1:], is_clear, strict=False):
            if is_border_clear and not self._stay_together(left, right):
                merged.append(right)
            else:
                merged[-1] += right
        return merged

    def _stay_together(self, left: str, right: str) -> bool:
        """Return whether two pieces stay together, since the text shows no word border between them."""
        is_listed = [piece in self._listed_words for piece in (left, right)]
        is_short = [len(split_clusters(piece)) == 1 for piece in (left, right)]
        if all(is_short) or any(
            short and not listed and _ALPHABET_CHARACTER.match(piece)
            for short, listed, piece in zip(is_short, is_listed, (left, right), strict=True)
        ):
            return True
        if all(is_listed):
            return False
        if _KATAKANA.match(left[-1]) and _KATAKANA.match(right):
            return True
        expected = max(1, self._piece_counts[left]) * max(1, self._piece_counts[right]) / self._num_pieces
        num_together = max(1, self._pair_counts[left, right])
        information = math.log(num_together / expected)
        return information >= min(
            MAX_INFORMATION, MAX_INFORMATION_SHARE * math.log((self._num_pieces + 1) / num_together)
        )

    def _best_split(self, run: str) -> tuple[list[str], list[bool]]:
        """Return the likeliest words of a run, and whether each border between two of them is clear.

        A border is clear if every cut without it is less likely by `CLEAR_MARGIN`.
        """
        clusters_of_run = split_clusters(run)
        size = len(clusters_of_run)
        words = [
            (start, end, score)
            for end in range(1, size + 1)
            for start in range(max(0, end - self._max_clusters), end)
            if (score := self._score_of(clusters_of_run[start:end])) is not None
        ]
        score_before, previous_cut = [0.0, *[-math.inf] * size], [0] * (size + 1)
        for start, end, score in words:
            if score_before[start] + score > score_before[end]:
                score_before[end], previous_cut[end] = score_before[start] + score, start
        score_after = [*[-math.inf] * size, 0.0]
        for start, end, score in sorted(words, reverse=True):
            score_after[start] = max(score_after[start], score + score_after[end])
        score_across = [-math.inf] * (size + 1)
        for start, end, score in words:
            for border in range(start + 1, end):
                score_across[border] = max(
                    score_across[border], score_before[start] + score + score_after[end]
                )
        cuts = [size] if size else []
        while cuts and previous_cut[cuts[-1]]:
            cuts.append(previous_cut[cuts[-1]])
        borders = [0, *reversed(cuts)]
        pieces = ["".join(clusters_of_run[start:end]) for start, end in pairwise(borders)]
        return pieces, [score_before[size] - score_across[border] >= CLEAR_MARGIN for border in borders[1:-1]]

    def _score_of(self, clusters_of_run: list[str]) -> float | None:
        """Return the log-probability of a word of these clusters, None if it is unknown and has several."""
        return self._scores.get(
            "".join(clusters_of_run), _UNKNOWN_SCORE if len(clusters_of_run) == 1 else None
        )


def _learn_pieces(runs: list[str]) -> dict[str, float]:
    """Pieces of a unigram model of the runs, and their log-probabilities; none where there is too little text."""
    size = sum(map(len, runs)) // CHARACTERS_PER_PIECE
    if size < MIN_PIECES:
        return {}
    return dict(_whole_cluster_pieces(train_unigram_model(runs, min(size, MAX_PIECES))))


_NUM_SPECIAL_PIECES = 3
"""Pieces that sentencepiece adds: unknown, begin and end."""


def train_unigram_model(runs: Sequence[str], size: int) -> sentencepiece.SentencePieceProcessor:
    """Return a unigram model of at most ``size`` pieces, or one per character, that changes no character.

    Source: Kudo 2018, Subword regularization, section 3.2; trained by sentencepiece.
    """
    model_bytes = io.BytesIO()
    # Short texts in Chinese have more characters than the pieces that their length allows.
    min_size = len(set().union(*runs)) + _NUM_SPECIAL_PIECES
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(runs),
        model_writer=model_bytes,
        model_type="unigram",
        vocab_size=max(size, min_size),
        hard_vocab_limit=False,
        character_coverage=1.0,
        add_dummy_prefix=False,
        normalization_rule_name="identity",
        max_sentencepiece_length=MAX_LENGTH,
        num_threads=1,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model_bytes.getvalue())


def _whole_cluster_pieces(model: sentencepiece.SentencePieceProcessor) -> Iterator[tuple[str, float]]:
    for number in range(model.get_piece_size()):
        piece = model.id_to_piece(number)
        begins_well = (
            re.match(f"[{_ATTACHED_CHARACTERS}]", piece) is None and piece[-1:] not in "\u17d2\u1039"
        )
        if not (model.is_control(number) or model.is_unknown(number)) and begins_well:
            yield piece, model.get_score(number)
