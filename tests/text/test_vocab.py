"""Vocabularies: what their rule keeps of a text, what is learned of long lines, and equal bytes in every folder."""

from __future__ import annotations

import re
import socket
import unicodedata
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
import sentencepiece as spm
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.text import vocab, vocab_rule

# Sentences whose spelling NFKC would change, one a line, and what stays of them (None: all).
SPELT = {
    "fa": ("می\u200cخواهم CD\u200cها را ۲۰\u200cساله نمی\u200cدانم", None),
    "ur": ("ہم\u200cسایہ", None),
    "hi": ("क\u094d\u200cष और र\u200d\u094dय", None),
    "te": ("సాఫ్ట్\u200cవేర్ కోసం", None),
    "ml": ("അവന്\u200d ക്\u200cഷ", None),
    "kn": ("ರಾಜ್\u200cಕುಮಾರ್", None),
    "bn": ("র\u200d্যাব", None),
    "si": ("ශ්\u200dරී ලංකා", None),
    "km": ("ស៊\u200cី", None),
    "th": ("น้ำ ทำ คำ", None),
    "lo": ("ນ້ຳ ໜ້າ ໝາ", None),
    "hy": ("Սևան և Երևան", None),
    "ko": ("ㅋㅋㅋ ㅠㅠ 가ㄱㅏ", None),
    "ru": ("дом № 5", None),
    "nan": ("saⁿ kʷ", None),
    "fr": ("1ᵉʳ n° 2ª 3º Xling™", None),
    "de": ("don´t 5 m² H₂O 10⁶ 10⁻³ 1½ ¾ 5① 10㎡", None),
    "en": ("Auf\u200clage fi\u200c re", "Auflage fi re"),  # no letter of Latin is written with it
    "ja": ("ﾊﾟﾝ Ａ１ ﬁ", "パン A1 fi"),  # widths and forms of a letter are not spelling
}
WORDS = ["".join(word) for word in product("bdgkm", "aeiou", "lnrst", "aeiou")]
TEXT = [" ".join(WORDS[i : i + 10] * 2 + WORDS[i : i + 40 : 3]) for i in range(0, 400, 4)]


def trained(out: Path, texts: dict[str, list[str]], **settings: object) -> manifest.Manifest:
    """A vocabulary of these lines, 20 times each, and of invented Esperanto."""
    corpora = {}
    for lang, lines in ({"eo": TEXT} | texts).items():
        path = out.parent / f"{lang}.txt"
        path.write_text("".join(f"{line}\n" for line in lines * 20), encoding="utf-8")
        corpora[lang] = (str(path),)
    return vocab.run(vocab.VocabConfig(str(out), corpora, **{"size": 150, **settings}))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def spelt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("spelt") / "v"
    names = dict(zip(SPELT, ("en", "fa", "hi", "te", "ml", "kn", "bn", "si", "km", "th", "lo", "hy", "ko", "ru", "de",
                             "fr", "ur", "ja", "sw"), strict=True))  # fmt: skip
    # One long sentence in another script: what is rare and kept has a piece all the same.
    trained(
        out,
        {names[lang]: [text] for lang, (text, _) in SPELT.items()},
        size=350,
    )
    return out


@pytest.mark.parametrize("lang", SPELT)
def test_what_a_script_or_a_number_needs_comes_back_after_encoding(spelt: Path, lang: str) -> None:
    text, left = SPELT[lang]
    processor = vocab.load_processor(spelt)
    ids = processor.encode(text)
    assert processor.unk_id() not in ids
    assert processor.decode(ids) == unicodedata.normalize("NFC", left or text)


def test_no_digit_comes_from_another_character() -> None:
    normalise = vocab_rule.normalizer().normalize
    others = [c for c in map(chr, range(0x110000)) if c.isprintable() and not c.isdecimal()]
    assert [c for c in others if any(map(str.isdecimal, normalise(c)))] == []


@given(
    st.lists(
        st.sampled_from(["a", "é", "e\u0301", "ب", "بَ", "क्", "1", " ", "\u200c", "\u200d", "茶", "आ"]),
        max_size=8,
    )
)
def test_a_non_joiner_stays_beside_letters_that_are_written_with_it(parts: list[str]) -> None:
    text = "".join(parts)
    users = {"ب", "َ", "क", "्", "आ"}
    num = sum(
        char == "\u200c" and (text[i - 1 : i] in users or text[i + 1 : i + 2] in users)
        for i, char in enumerate(text)
    )
    made = vocab_rule.normalizer().normalize(text)
    assert made.count("\u200c") == num and made.count("\u200d") == text.count("\u200d")


def test_a_vocabulary_of_before_is_read_by_its_own_rule(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n".join(TEXT), encoding="utf-8")
    spm.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "spm"), vocab_size=100, minloglevel=2
    )
    processor = vocab.load_processor(tmp_path)
    assert processor.normalize("10⁶ می\u200cخواهم") == "▁106▁می▁خواهم"


def test_the_rule_is_nmt_nfkc_in_all_other_texts() -> None:
    ours, theirs = vocab_rule.normalizer(), spm.SentencePieceNormalizer(rule_name="nmt_nfkc")
    changed = {
        c for c in map(chr, range(1, 0x3400)) if ours.normalize(f"x{c}y") != theirs.normalize(f"x{c}y")
    }
    assert changed == {c for c in vocab_rule.kept_characters() if c < "\u3400"} | {"\u200c"}


def test_a_vocabulary_is_the_same_in_each_folder_and_names_no_machine(tmp_path: Path) -> None:
    texts = {
        "en": ["one two three four five six seven", "eight nine ten"],
        "sw": ["moja mbili tatu nne tano"],
    }
    files = {}
    for name in ("a", "some/longer/place"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        trained(folder / "v", texts)
        files[name] = {
            path.name: path.read_bytes() for path in (folder / "v").iterdir() if path.suffix != ".json"
        }
    first, second = files.values()
    assert first == second and set(first) == {"spm.model", "spm.vocab", "dict.txt"}
    assert not [
        path for path in (str(tmp_path), "tmp", socket.gethostname()) if path.encode() in first["spm.model"]
    ]


def test_one_long_line_teaches_as_much_as_its_sentences(tmp_path: Path) -> None:
    letters = "абвгдежзийклмнопрстуфхцчшщъыьэюя"
    sentences = [f"{a}{b}{a} {b}{a}{b}." for a in letters for b in letters]
    pieces = {}
    for name, lines in (("short", sentences), ("long", [" ".join(sentences)])):
        (tmp_path / name).mkdir()
        made = trained(tmp_path / name / "v", {"ru": lines}, size=400)
        listed = (tmp_path / name / "v/dict.txt").read_text(encoding="utf-8").splitlines()
        pieces[name] = sum(any("а" <= c <= "я" for c in line) for line in listed)
        chars = made.counts["chars"]
        share = chars["ru"] ** 0.3 / (chars["ru"] ** 0.3 + chars["eo"] ** 0.3)
        assert made.counts["shares"]["ru"] == pytest.approx(share, abs=0.02)
    assert pieces["long"] >= 0.97 * pieces["short"]


def test_a_line_with_the_mark_of_the_trainer_is_read(tmp_path: Path) -> None:
    trained(tmp_path / "v", {"en": ["some words and others"], "ru": ["▅ жук щит ▅ ёлка"]})
    assert "ж" in (tmp_path / "v/dict.txt").read_text(encoding="utf-8")


@given(
    st.lists(
        st.sampled_from(["a" * 900, "字" * 300, "。", ". ", " ", "का" * 40, "e\u0301" * 50, "x"]), max_size=60
    )
)
def test_long_lines_are_cut_between_sentences_words_or_letters(parts: list[str]) -> None:
    line = "".join(parts)
    cut = list(vocab.cut_line(line))
    assert "".join(cut) == line and max(map(len, cut)) <= vocab.MAX_LINE_CHARS
    for part in cut[1:]:
        assert not unicodedata.combining(part[0]) and unicodedata.category(part[0])[0] != "M"


def test_where_a_long_line_is_cut() -> None:
    words = "word " * 1000
    assert {len(part) for part in vocab.cut_line(words)} == {4000, 1000} or all(
        part.strip().endswith("word") and part.strip().startswith("word") for part in vocab.cut_line(words)
    )
    ends = Counter(part[-1] for part in vocab.cut_line(("字" * 30 + "。") * 400))
    assert set(ends) == {"。"}
    assert [len(part) for part in vocab.cut_line("字" * 9000)] == [4000, 4000, 1000]


def test_a_rare_character_that_is_kept_has_a_piece_only_where_it_is_no_noise(tmp_path: Path) -> None:
    trained(tmp_path / "v", {"en": ["one two three four 10⁶ " + "five six seven " * 400]})
    assert "⁶ 1\n" in (tmp_path / "v/dict.txt").read_text(encoding="utf-8")


FEW = ["moja mbili tatu nne tano sita saba nane tisa kumi"]


def test_little_text_gives_the_default_size_as_many_pieces_as_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path / "v", {"sw": FEW}, size=vocab.VocabConfig.size)
    num = len((tmp_path / "v/spm.vocab").read_text(encoding="utf-8").splitlines())
    assert f"the text gives {num} pieces, not the usual 8,000" in capsys.readouterr().err
    with pytest.raises(UserError) as refused:
        trained(tmp_path / "w", {"sw": FEW}, size=9000)
    assert refused.value.valid == f"at most size={num} for this text"
    trained(tmp_path / "w", {"sw": FEW}, size=num)
    assert (tmp_path / "w/spm.model").read_bytes() == (tmp_path / "v/spm.model").read_bytes()


@pytest.mark.parametrize("settings", [{}, {"byte_fallback": True}, {"model": "bpe"}])
def test_a_size_below_the_characters_is_refused_with_the_one_that_works(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    with pytest.raises(UserError, match="a piece for each character") as refused:
        trained(tmp_path / "v", {"sw": FEW}, size=8, **settings)
    least = re.search(r"at least size=(\d+),", str(refused.value))
    assert least and refused.value.fix == f"size={least[1]}, or a smaller coverage="
    trained(tmp_path / "v", {"sw": FEW}, size=int(least[1]), **settings)


@pytest.mark.parametrize("wrong", [{"size": 0}, {"coverage": 1.5}, {"num_threads": 0}, {"num_sentences": 0}])
def test_a_setting_out_of_its_range_is_named(tmp_path: Path, wrong: dict[str, object]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(UserError, match=f"^{name}={value}; valid: a "):
        trained(tmp_path / "v", {}, **wrong)
