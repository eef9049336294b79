"""Words that were split before have the pieces of the running text, with every kind of tokenizer that is read."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from tests.transfer.test_label_round_trip import ARTICLE
from xling.hub.transformers_wrapper import order_tokenizer, write_vocabulary
from xling.text import vocab
from xling.text.tokenizers import pre_split
from xling.text.tokenizers.wordpiece import WordPieceProcessor, build_tokenizer
from xling.transfer.encode import encode_pieces
from xling.transfer.task import TASKS
from xling.transfer.words import _split_to_pieces

UNSPACED = {lang: "".join(ARTICLE[lang].split()) for lang in ("ja", "th", "zh")}
TEXTS = [*ARTICLE.values(), *UNSPACED.values(), "Daniel Moreno works in Lima , ( Peru ) since 2019 ."]
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BYTES = [f"<0x{number:02X}>" for number in range(256)]


def byte_level(prefix: bool) -> Tokenizer:
    """GPT-2's, RoBERTa's, DeBERTa v1's and ModernBERT's kind."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=SPECIALS, initial_alphabet=alphabet)
    made.train_from_iterator(TEXTS, trainer)
    return made


def metaspace(kind: str) -> Tokenizer:
    """Gemma's kind, without a space before the text, and those of Llama, XLM-R and DeBERTa v3, with one."""
    if kind == "unigram":
        made = Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.train_from_iterator(
            TEXTS,
            trainers.UnigramTrainer(
                vocab_size=600 if len(TEXTS) < 99 else 6000, special_tokens=SPECIALS, unk_token="<unk>"
            ),
        )
        return made
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")  # no merge over a space
    made.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=900, special_tokens=[*SPECIALS, *BYTES]))
    replace = normalizers.Replace(" ", "▁")
    made.normalizer = (
        replace if kind == "gemma" else normalizers.Sequence([normalizers.Prepend("▁"), replace])
    )
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return made


def published(made: Tokenizer, folder: Path) -> Any:
    write_vocabulary(order_tokenizer(made, 0, 1, 2, 3, 4), folder)
    return vocab.load_processor(folder)


def sentencepiece(folder: Path, **settings: Any) -> Any:
    (folder / "en.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    cfg = {
        "corpora": {"en": (str(folder / "en.txt"),)},
        "out": str(folder / "vocab"),
        "size": 900,
        "coverage": 1.0,
    }
    vocab.run(vocab.VocabConfig(**cfg | settings))
    return vocab.load_processor(folder / "vocab")


def wordpiece(folder: Path, lower: bool) -> Any:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=lower)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=700))
    pieces = [name for name in made.get_vocab() if not name.startswith("[")]
    build_tokenizer(pieces, lower, None, True).save(str(folder / "wordpiece.json"))
    return WordPieceProcessor(folder / "wordpiece.json")


KINDS: dict[str, Callable[[Path], Any]] = {
    "byte-level": lambda folder: published(byte_level(False), folder),
    "byte-level with a space before": lambda folder: published(byte_level(True), folder),
    "gemma": lambda folder: published(metaspace("gemma"), folder),
    "llama": lambda folder: published(metaspace("llama"), folder),
    "metaspace unigram": lambda folder: published(metaspace("unigram"), folder),
    "ours, unigram": lambda folder: sentencepiece(folder, size=640),
    "ours, bpe": lambda folder: sentencepiece(folder, model="bpe"),
    "ours, bytes, as written": lambda folder: sentencepiece(folder, byte_fallback=True, normalize=False),
    "cased wordpiece": lambda folder: wordpiece(folder, False),
    "uncased wordpiece": lambda folder: wordpiece(folder, True),
}
WITHOUT_A_SPACE_BEFORE = ("byte-level", "gemma")


@pytest.fixture(scope="module")
def processor_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    made: dict[str, Any] = {}

    def get(kind: str) -> Any:
        if kind not in made:
            made[kind] = KINDS[kind](tmp_path_factory.mktemp("tokenizer"))
        return made[kind]

    return get


def joined(pieces: list[list[int]]) -> list[int]:
    return list(itertools.chain(*pieces))


@pytest.mark.parametrize("kind", KINDS)
def test_words_have_the_pieces_of_the_running_text(processor_of: Callable[[str], Any], kind: str) -> None:
    processor = processor_of(kind)
    texts = SPACED if kind in WITHOUT_A_SPACE_BEFORE else ARTICLE.values()
    for text in texts:
        pieces = pre_split.encode_words(processor, text.split())
        assert joined(pieces) == processor.encode(text), text
        assert all(pieces), text


SPACED = [text for lang, text in ARTICLE.items() if lang not in UNSPACED]


@given(st.sampled_from([*SPACED, *UNSPACED.values()]), st.sampled_from([*KINDS]), st.data())
def test_a_text_cut_between_its_pieces_is_put_together_again(
    processor_of: Callable[[str], Any], text: str, kind: str, data: st.DataObject
) -> None:
    """Spaces are cuts; in scripts without spaces so are some borders of pieces."""
    processor = processor_of(kind)
    if text not in UNSPACED.values():
        words = text.split()
    elif kind in WITHOUT_A_SPACE_BEFORE:
        ranges = processor.encode(text, return_type="offset_mapping")["offsets"]
        borders = [b for (_, a), (b, _) in itertools.pairwise(ranges) if a <= b and 0 < b < len(text)]
        cuts = data.draw(st.sets(st.sampled_from(borders), min_size=len(text) // 5))
        places = [0, *sorted(cuts), len(text)]
        words = [text[a:b] for a, b in itertools.pairwise(places)]
    else:
        words = [text]
    pieces = pre_split.encode_words(processor, words)
    assert joined(pieces) == processor.encode(text)
    assert [len("".join(word.split())) > 0 for word in words] == [bool(each) for each in pieces]


@pytest.mark.parametrize("kind", KINDS)
@given(
    words=st.lists(
        st.sampled_from(["", " ", "\u200b", "\u0301a", "(", "字" * 12, "我", "们", "ครู", "ab cd", "Ünï", "x"])
        | st.text(max_size=6),
        max_size=12,
    )
)
def test_any_words_keep_their_order_and_their_letters(
    processor_of: Callable[[str], Any], kind: str, words: list[str]
) -> None:
    processor = processor_of(kind)
    pieces = pre_split.encode_words(processor, words)
    assert len(pieces) == len(words)
    for word, each in zip(words, pieces, strict=True):
        assert bool(each) or not processor.encode(word.strip()) or not word.strip().isalnum()


def test_pieces_of_a_byte_level_tokenizer_by_hand(processor_of: Callable[[str], Any]) -> None:
    """What RoBERTa was trained on: the space belongs to the piece behind it."""
    processor = processor_of("byte-level")
    words = ("Daniel", "Moreno", "works")
    wanted = [processor._tokenizer.encode(text).tokens for text in ("Daniel", " Moreno", " works")]
    assert [each[0][0] for each in wanted] == ["D", "Ġ", "Ġ"]
    names = [
        [processor._tokenizer.id_to_token(processor._stored_id(piece)) for piece in each]
        for each in pre_split.encode_words(processor, words)
    ]
    assert names == wanted
    row = type("Row", (), {"id": "1", "fields": {"tokens": words}, "label": None})()
    (window,) = TASKS["tag"].encode(processor, row, ("O",), 64)
    text = encode_pieces(processor, " ".join(words))
    assert window["tokens"].tolist() == [0, *text, 2]
    assert window["chosen"].tolist() == [1, 1 + len(wanted[0]), 1 + len(wanted[0]) + len(wanted[1])]
    tokens, word_of_piece = _split_to_pieces(processor, words, 64)
    assert tokens == [0, *text, 2]
    assert word_of_piece == [n for n, each in enumerate(wanted) for _ in each]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["我们", "是", "学生", "。"], "我们是学生。"),
        (["2019", "年", "，", "BBC", "的", "记者"], "2019年，BBC的记者"),
        (["ครู", "(", "ขาย", ")", "ขนม"], "ครู(ขาย)ขนม"),
        (["หญิงชราเห็นเรือ", "สีแดงใกล้แม่น้ำ"], "หญิงชราเห็นเรือ สีแดงใกล้แม่น้ำ"),  # phrases
        (["저는", "학생", "."], "저는 학생 ."),
        (["我", "咬", "!", "“", "Oh", "!", "”"], "我咬!“ Oh ! ”"),
        (["中", "정부", "는"], "中 정부 는"),
        (["ปี", "2019", "BBC", "มา"], "ปี 2019 BBC มา"),
        (["a", "", " ", "b"], "a b"),
    ],
)
def test_where_the_text_has_spaces(words: list[str], text: str) -> None:
    found, spans = pre_split.join_words(words, spaced=False)
    assert found == text
    assert [found[a:b] for a, b in spans] == [word.strip() for word in words]
    assert pre_split.join_words(words, spaced=True)[0] == " ".join(" ".join(words).split())
