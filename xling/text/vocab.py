"""Training and loading of one SentencePiece vocabulary for all languages, balanced by alpha.

Piece ids follow XLM-R: fairseq's four symbols ``<s> <pad> </s> <unk>`` are 0 to 3 and piece i of
SentencePiece (which starts with ``<unk> <s> </s>``) is i + 1; ``<mask>`` comes last and is added by the task.
"""

import io
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as proto

from xling.core import languages, progress
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import tell
from xling.core.sampling import alpha_shares, rng
from xling.core.settings import values
from xling.core.settings.values import COUNT, COVERAGE, PART, Lang, ranged
from xling.text import vocab_rule
from xling.text.files import corpus_reader, pair_folder
from xling.text.files.shards import vocab_digest
from xling.text.words.units import combining_marks

NUM_SPM_SPECIALS = 3
MAX_LINE_CHARS = 4000
MIN_KEPT_SHARE = 1e-7
_SENTENCE_END = re.compile(r"[.!?…။።।॥۔؟](?=\s)|[。！？]")
_LETTER = re.compile(f"[^{combining_marks()}]")
_TRAINER_MARK = "\u2585"
"""Character by which sentencepiece marks unknown ones; it leaves out every line that has one."""
SCORE_STEPS_PER_UNIT = 256
SPM_MODEL, WORDPIECE = "spm.model", "wordpiece.json"
TRANSFORMERS_TOKENIZER, DICTIONARY = "foreign.json", "dict.txt"
"""Files of a vocabulary: the dictionary, and one tokenizer file."""
KEPT = ("en",)
NOT_OF_A_BASE = ("coverage", "model", "byte_fallback", "normalize", "num_threads")
IMPORTED_PIECES = 3
"""Version of the pieces and offsets that imported tokenizers give: answers from other ones are predicted again."""


@dataclass(frozen=True)
class VocabConfig:
    """Settings of ``xling vocab``.

    Attributes:
        corpora: language -> files, globs or corpus directories.
        rows: output of ``xling corpus pairs``, whose text is added to ``corpora``; empty for none.
        base: folder of an imported BERT, whose WordPiece pieces stay, see `xling.text.tokenizers.extended`; empty for
            a vocabulary of its own.
        keep: languages whose text is cut as by ``base``; new pieces are learned from the others.
        out: directory to publish: ``spm.model``, ``spm.vocab``, ``dict.txt``.
        size: number of pieces, including SentencePiece's three specials. Text for fewer than the default gives a
            smaller vocabulary; with another size it is refused.
        alpha: exponent of the language shares, by characters.
        num_sentences: lines to train on, over all languages; those of more than 4,000 characters are cut.
        coverage: share of characters that get a piece of their own.
        model: ``unigram`` (XLM-R, mBART, mT5) or ``bpe`` (Gemma, mmBERT).
        byte_fallback: split characters without a piece into bytes instead of unknown tokens; takes 256 of the
            pieces.
        normalize: compose characters and merge spaces (`xling.text.vocab_rule`); Gemma leaves the text unchanged.
        num_threads: threads of SentencePiece.
        seed: seed of the sampling of lines.
    """

    out: str
    corpora: dict[Lang, tuple[str, ...]] = field(default_factory=dict)
    rows: str = ""
    base: str = ""
    keep: tuple[Lang, ...] = KEPT
    size: int = ranged(8000, COUNT)
    alpha: float = ranged(0.3, PART)
    num_sentences: int = ranged(500_000, COUNT)
    coverage: float = ranged(0.9998, COVERAGE)
    model: Literal["unigram", "bpe"] = "unigram"
    byte_fallback: bool = False
    normalize: bool = True
    num_threads: int = ranged(1, COUNT)
    seed: int = 1


def run(cfg: VocabConfig) -> manifest.Manifest:
    """Train the vocabulary and publish it.

    Raises:
        UserError: an unknown language, a setting out of range, an unreadable file, too little text for ``size`` pieces.
    """
    given = cfg
    if cfg.rows:
        cfg = replace(cfg, corpora=joined(pair_folder.texts_of(cfg.rows), cfg.corpora))
    if not cfg.corpora:
        raise UserError("no text to learn a vocabulary from", "corpora.LANG=PATH", "name some text")
    for lang in cfg.corpora:
        languages.get(lang)
    if not cfg.base and cfg.keep != KEPT:
        raise UserError(f"keep={','.join(cfg.keep)} without base=", fix="give base=MODEL, or leave keep= out")
    values.check(cfg)
    out = Path(cfg.out)
    inputs = [path for paths in cfg.corpora.values() for path in corpus_reader.resolve_files(paths)]
    if cfg.base:
        inputs.append(_base_file(cfg))
    if published := manifest.up_to_date(out, "vocab", given, inputs):
        return published
    num_chars, num_lines, kept = {}, {}, Counter[str]()
    for lang in cfg.corpora:
        progress.doing(f"counting the characters of {lang}")
        num_chars[lang], num_lines[lang], kept_here = _count(cfg, lang)
        kept += {char: n for char, n in kept_here.items() if n >= MIN_KEPT_SHARE * num_chars[lang]}
    with manifest.publish(out, "vocab", given, inputs) as publication:
        used: Counter[str] = Counter()
        progress.doing(f"learning {cfg.size:,} pieces from {sum(num_lines.values()):,} lines")
        if cfg.base:
            publication.counts |= _extend(cfg, publication.path, num_chars, num_lines, used)
        else:
            lines = _sample_lines(cfg, num_chars, num_lines, used)
            _train(cfg, publication.path, lines, "".join(sorted(kept)))
            pieces = (publication.path / "spm.vocab").read_text(encoding="utf-8").rstrip("\n").split("\n")
            names = [line.partition("\t")[0] for line in pieces[NUM_SPM_SPECIALS:]]
            (publication.path / "dict.txt").write_text(
                "".join(f"{name} 1\n" for name in names), encoding="utf-8"
            )
        publication.counts |= {
            "chars": num_chars,
            "shares": {lang: round(used[lang] / used.total(), 4) for lang in cfg.corpora if used[lang]},
            "vocab_digest": vocab_digest(publication.path),
        }
    return manifest.read(out)


def joined(
    first: Mapping[str, tuple[str, ...]], second: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return the paths of every language in both."""
    return {lang: (*first.get(lang, ()), *second.get(lang, ())) for lang in {**first, **second}}


def _count(cfg: VocabConfig, lang: str) -> tuple[int, int, Counter[str]]:
    """Return characters and lines of a language, and how often it has each character that the rule keeps.

    Raises:
        UserError: there is no text.
    """
    num_chars = num_lines = 0
    kept: Counter[str] = Counter()
    for line in _read_lines(cfg, lang):
        num_chars, num_lines = num_chars + len(line), num_lines + 1
        if cfg.normalize and not line.isascii():
            kept.update(vocab_rule.kept_pattern().findall(line))
    if not num_chars:
        raise UserError(
            f"corpora.{lang}={','.join(cfg.corpora[lang])} holds no text", fix=f"leave {lang} out"
        )
    return num_chars, num_lines, kept


def _read_lines(cfg: VocabConfig, lang: str) -> Iterator[str]:
    """Yield the lines of a language as sentencepiece takes them: it leaves out long ones and those with its mark."""
    for doc in corpus_reader.read_documents(cfg.corpora[lang]):
        for line in doc:
            yield from cut_line(line.replace(_TRAINER_MARK, " "))


def cut_line(line: str) -> Iterator[str]:
    """Yield ``line`` in parts of at most `MAX_LINE_CHARS` characters, all of its text.

    It is cut behind the last sentence end in the second half of a part, else at the last space in it, else before
    a letter.
    """
    start = 0
    while len(line) - start > MAX_LINE_CHARS:
        window = line[start : start + MAX_LINE_CHARS + 1]
        half = MAX_LINE_CHARS // 2
        ends = [match.end() for match in _SENTENCE_END.finditer(window, half)]
        end = ends[-1] if ends else window.rfind(" ", half)
        if end <= 0:
            letters = [match.start() for match in _LETTER.finditer(window, half)]
            end = letters[-1] if letters else MAX_LINE_CHARS
        end = min(end, MAX_LINE_CHARS)
        yield window[:end]
        start += end
    yield line[start:]


def _sample_lines(
    cfg: VocabConfig, num_chars: dict[str, int], num_lines: dict[str, int], used: Counter[str]
) -> Iterator[str]:
    """Yield lines of every language, each 0, 1 or more times, so that the shares of characters hold.

    ``used`` counts the characters of each language that were yielded.
    """
    shares = alpha_shares(num_chars, cfg.alpha)
    mean_chars = sum(num_chars.values()) / sum(num_lines.values())
    budget_chars = min(sum(num_chars.values()), cfg.num_sentences * mean_chars)
    for lang in cfg.corpora:
        copies_per_line = shares[lang] * budget_chars / num_chars[lang]
        generator = rng(cfg.seed, "vocab", lang)
        for line in _read_lines(cfg, lang):
            for _ in range(int(copies_per_line + generator.random())):
                used[lang] += len(line)
                yield line


def _base_file(cfg: VocabConfig) -> Path:
    """Return the tokenizer file of ``base``.

    Raises:
        UserError: there is none, or a setting has no effect on it.
    """
    path = Path(cfg.base) / WORDPIECE
    if not path.is_file():
        raise UserError(
            f"base={cfg.base} has no WordPiece vocabulary", "an imported BERT", "run `xling import hf`"
        )
    plain = VocabConfig(out="")
    if given := [n for n in NOT_OF_A_BASE if getattr(cfg, n) != getattr(plain, n)]:
        raise UserError(f"base={cfg.base} with {given[0]}=", fix=f"leave {' and '.join(given)} out")
    if not set(cfg.corpora) - set(cfg.keep):
        raise UserError(
            f"base={cfg.base} with text of {', '.join(cfg.corpora)} alone",
            "text of other languages than keep=",
        )
    return path


def _extend(
    cfg: VocabConfig, out: Path, num_chars: dict[str, int], num_lines: dict[str, int], used: Counter[str]
) -> dict[str, int]:
    """Write a WordPiece vocabulary that has the pieces of ``base`` and new ones; return counts."""
    from xling.text.tokenizers import extended

    others = {lang: paths for lang, paths in cfg.corpora.items() if lang not in cfg.keep}
    chars, lines = ({lang: counts[lang] for lang in others} for counts in (num_chars, num_lines))
    text = partial(_sample_lines, replace(cfg, corpora=others), chars, lines, used)
    kept = (line for lang in cfg.corpora if lang in cfg.keep for line in _read_lines(cfg, lang))
    tokenizer, names, counts = extended.extend(_base_file(cfg), cfg.size, text, kept)
    tokenizer.save(str(out / WORDPIECE))
    (out / DICTIONARY).write_text("".join(f"{name} 1\n" for name in names), encoding="utf-8")
    return counts


def _train(cfg: VocabConfig, out: Path, sentences: Iterator[str], required: str) -> None:
    """Train and write ``spm.model`` and ``spm.vocab``; ``required`` are characters that get a piece in any case."""
    written = io.BytesIO()  # with a file of its own, sentencepiece writes its path into the model
    rule = vocab_rule.normalizer() if cfg.normalize else spm.SentencePieceNormalizer(rule_name="identity")
    spec = proto.NormalizerSpec.FromString(rule.serialized_normalizer_spec())
    spec.remove_extra_whitespaces, spec.add_dummy_prefix, spec.escape_whitespaces = cfg.normalize, True, True
    try:
        spm.SentencePieceTrainer.train(
            sentence_iterator=sentences,
            model_writer=written,
            normalizer=spm.SentencePieceNormalizer(normalizer_spec=spec),
            required_chars=required,
            vocab_size=cfg.size,
            hard_vocab_limit=cfg.size != VocabConfig.size,
            model_type=cfg.model,
            byte_fallback=cfg.byte_fallback,
            character_coverage=cfg.coverage,
            num_threads=cfg.num_threads,
            max_sentence_length=4 * MAX_LINE_CHARS,
            unk_id=0,
            bos_id=1,
            eos_id=2,
            pad_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _unfit(cfg, " ".join(str(error).split())) from None
    model = proto.ModelProto.FromString(written.getvalue())
    model.trainer_spec.hard_vocab_limit = True  # the bytes are those of the same size where it is given
    if len(model.pieces) < cfg.size:
        tell(f"vocab: the text gives {len(model.pieces):,} pieces, not the usual {cfg.size:,}")
    _round_scores(model)
    (out / SPM_MODEL).write_bytes(model.SerializeToString())
    lines = [f"{piece.piece}\t{piece.score:.9g}\n" for piece in model.pieces]
    (out / "spm.vocab").write_text("".join(lines), encoding="utf-8")


def _unfit(cfg: VocabConfig, why: str) -> UserError:
    """Return the error for a size that sentencepiece refused, ``why`` being its message."""
    if most := re.search(r"set it to a value <= (\d+)", why):
        limit, fix = f"at most size={most[1]} for this text", f"size={most[1]}, or give more text"
    elif least := re.search(r"smaller than required_chars\. \d+ vs (\d+)", why):
        limit = f"at least size={least[1]}, a piece for each character of this text"
        fix = f"size={least[1]}, or a smaller coverage="
    else:
        return UserError(f"size={cfg.size}: SentencePiece made no pieces: {why}", fix="give more text")
    return UserError(f"size={cfg.size}: SentencePiece could not make so many pieces", limit, fix)


def _round_scores(model: Any) -> None:
    """Round the scores to multiples of 2^-8, whose sums are exact in single precision up to 65,536.

    Two segmentations of a word into the same pieces in another order have the same score. With inexact sums,
    rounding after the preceding text would decide between them, and other implementations would segment
    differently.
    """
    for piece in model.pieces:
        piece.score = round(piece.score * SCORE_STEPS_PER_UNIT) / SCORE_STEPS_PER_UNIT


def copy_vocabulary(directory: Path, out: Path) -> None:
    """Copy the files of the vocabulary in ``directory`` into ``out``.

    Raises:
        UserError: there is no vocabulary.
    """
    vocab_digest(directory)
    load_processor(directory)
    for name in (DICTIONARY, SPM_MODEL, WORDPIECE, TRANSFORMERS_TOKENIZER):
        if (directory / name).is_file():
            shutil.copy(directory / name, out / name)


def load_processor(directory: Path) -> Any:
    """Load the SentencePiece model of a published vocabulary, or the equivalent of an imported vocabulary.

    Raises:
        UserError: the directory holds no vocabulary or a damaged one.
    """
    if (directory / WORDPIECE).is_file():
        from xling.text.tokenizers.wordpiece import WordPieceProcessor

        return WordPieceProcessor(directory / WORDPIECE)
    if (directory / TRANSFORMERS_TOKENIZER).is_file():
        from xling.text.tokenizers.transformers_tokenizer import TransformersProcessor

        return TransformersProcessor(directory / TRANSFORMERS_TOKENIZER)
    path = directory / SPM_MODEL
    if not path.is_file():
        raise UserError(
            f"no vocabulary at {directory}", "a directory with spm.model", "run `xling vocab` first"
        )
    try:
        return spm.SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError) as error:
        raise UserError(f"{path} is damaged: {error}", fix="run `xling vocab` again") from None


def has_imported_tokenizer(directory: Path) -> bool:
    """Return whether a vocabulary has the tokenizer of another library instead of a SentencePiece model."""
    return any((directory / name).is_file() for name in (WORDPIECE, TRANSFORMERS_TOKENIZER))
