"""WordPiece vocabularies with further pieces: ``xling vocab base=MODEL``.

The pieces of the base stay, in their order, and text of the kept languages is cut as before. New pieces are learned
from the text of the other languages, most frequent merges first. It differs from the base in four points. Accents
stay, because in many scripts vowels are accents. Letters are composed (NFC). A run of Chinese characters is one word.
Words are cut up to a length of 1,000 instead of 100, because Thai has no spaces.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, normalizers, trainers
from tokenizers.models import WordPiece

from xling.core.errors import UserError
from xling.core.output.command_result import tell
from xling.text.tokenizers import wordpiece

MAX_WORD_CHARS = 1000
LEAST_COUNT = 3
"""Occurrences of a word in the kept languages from which it is cut as before."""


def extend(
    base: Path, size: int, text: Callable[[], Iterator[str]], kept: Iterable[str]
) -> tuple[Tokenizer, list[str], dict[str, int]]:
    """Return a tokenizer with the pieces of ``base`` and new ones, the names of its pieces, and counts.

    Args:
        size: number of pieces in all.
        text: returns the same lines each time.
        kept: lines whose frequent words are cut as by ``base``.

    Raises:
        UserError: ``size`` leaves no room for new pieces, or there are none.
    """
    old = Tokenizer.from_file(str(base))
    specials = {*wordpiece.SPECIALS, wordpiece.MASK}
    names = [
        name for name, _ in sorted(old.get_vocab().items(), key=lambda item: item[1]) if name not in specials
    ]
    if size <= len(names):
        raise UserError(
            f"size={size} with a base of {len(names):,} pieces",
            f"more than {len(names):,}",
            "set a larger size=",
        )
    lowercase = bool(old.normalizer.lowercase)
    # The trainer numbers the characters inside of words in another order each time, by which it decides between
    # equally frequent pieces. Specials are numbered as they are given.
    letters = _learner(text(), 1, [], lowercase).get_vocab()
    inside = sorted(name for name in letters if name.startswith(wordpiece.CONTINUATION))
    learner = _learner(text(), size, inside, lowercase)
    learned = sorted(learner.get_vocab().items(), key=lambda item: item[1])
    known = {*names, *specials}
    new = [name for name, _ in learned if name not in known]
    words = _frequent_words(learner, kept)
    num_learned = len(new)
    while new := new[: size - len(names)]:
        tokenizer = _tokenizer([*names, *new], lowercase)
        if not (used := _used(tokenizer, words, len(names))):
            break
        new = [name for name in new if name not in used]
    if not new:
        raise UserError(f"no piece to add to {base}", "text of other languages", "give more corpora.LANG=")
    counts = {"base_pieces": len(names), "new_pieces": len(new), "left_out": num_learned - len(new)}
    tell(f"{len(new):,} pieces beside the {len(names):,} of {base.parent}")
    return tokenizer, [*names, *new], counts


def _learner(text: Iterator[str], size: int, first: list[str], lowercase: bool) -> Tokenizer:
    learner = _tokenizer([], lowercase)
    learner.train_from_iterator(
        text,
        trainers.WordPieceTrainer(
            vocab_size=size, min_frequency=2, special_tokens=first, show_progress=False
        ),
    )
    return learner


def _tokenizer(pieces: list[str], lowercase: bool) -> Tokenizer:
    tokenizer = wordpiece.build_tokenizer(pieces, lowercase, strip_accents=False, split_chinese=False)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), tokenizer.normalizer])
    model: Any = tokenizer.model
    tokenizer.model = WordPiece(
        tokenizer.get_vocab(), unk_token=model.unk_token, max_input_chars_per_word=MAX_WORD_CHARS
    )
    return tokenizer


def _frequent_words(tokenizer: Tokenizer, lines: Iterable[str]) -> list[str]:
    counts: Counter[str] = Counter()
    for line in lines:
        plain = tokenizer.normalizer.normalize_str(line)
        counts.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(plain))
    return [word for word, number in counts.items() if number >= LEAST_COUNT and word.isascii()]


def _used(tokenizer: Tokenizer, words: list[str], num_old: int) -> set[str]:
    first = len(wordpiece.SPECIALS) + num_old
    mask = tokenizer.token_to_id(wordpiece.MASK)
    used = {i for encoding in tokenizer.encode_batch(words) for i in encoding.ids if i >= first and i != mask}
    return {str(tokenizer.id_to_token(number)) for number in used}
