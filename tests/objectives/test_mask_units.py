"""Whole-word and span masking in every script: the share of pieces that is masked, and words of scripts with spaces."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from xling.core.sampling import rng
from xling.data import masking
from xling.objectives import mmlm
from xling.objectives.settings import MmlmConfig
from xling.text import vocab
from xling.text.word_segmentation import begins_unspaced_word

# Words of languages that are written without spaces; Tibetan has a mark between syllables.
UNSPACED = {
    "zh": "老师 学生 图书馆 城市 河流 今天 明天 喜欢 看见 很大 非常 我们",
    "th": "ครู นักเรียน ห้องสมุด เมือง แม่น้ำ วันนี้ พรุ่งนี้ ชอบ เห็น ใหญ่ มาก พวกเรา",
    "ja": "せんせい 学生 としょかん 都市 かわ きょう あした すき 見る おおきい とても カメラ",
    "km": "គ្រូ សិស្ស បណ្ណាល័យ ទីក្រុង ទន្លេ ថ្ងៃនេះ ស្អែក ចូលចិត្ត ឃើញ ធំ ណាស់ យើង",
    "lo": "ຄູ ນັກຮຽນ ຫໍສະໝຸດ ເມືອງ ແມ່ນ້ຳ ມື້ນີ້ ມື້ອື່ນ ມັກ ເຫັນ ໃຫຍ່ ຫຼາຍ ພວກເຮົາ",
    "my": "ဆရာ ကျောင်းသား စာကြည့်တိုက် မြို့ မြစ် ဒီနေ့ မနက်ဖြန် ကြိုက် မြင် ကြီး အလွန် ကျွန်တော်တို့",
    "bo": "དགེ་རྒན་ སློབ་མ་ དཔེ་མཛོད་ཁང་ གྲོང་ཁྱེར་ གཙང་པོ་ དེ་རིང་ སང་ཉིན་ དགའ་ མཐོང་ ཆེན་པོ་ ཧ་ཅང་ ང་ཚོ་",
}
SPACED = {
    "en": "teacher pupil library city river today tomorrow like see big very we",
    "hi": "शिक्षक छात्र पुस्तकालय शहर नदी आज कल पसंद देखना बड़ा बहुत हम",
    "ko": "선생님 학생 도서관 도시 강 오늘 내일 좋아하다 보다 크다 매우 우리",
    "ar": "معلم طالب مكتبة مدينة نهر اليوم غدا يحب يرى كبير جدا نحن",
    "am": "መምህር ተማሪ ቤተመጻሕፍት ከተማ ወንዝ ዛሬ ነገ ይወዳል ያያል ትልቅ በጣም እኛ",
}


def sentences(lang: str, num: int, num_words: int) -> list[str]:
    draw = rng(1, "words", lang)
    words = (UNSPACED | SPACED)[lang].split()
    glue = "" if lang in UNSPACED else " "
    return [glue.join(draw.choice(words, num_words)) for _ in range(num)]


class Dictionary(list[str]):
    """The part of fairseq's dictionary that is used."""


@pytest.fixture(scope="module", params=[*UNSPACED, *SPACED])
def learned(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Dictionary, Any]:
    """A language, its pieces behind the four specials, and its vocabulary, where most words have several pieces."""
    folder, lang = tmp_path_factory.mktemp("unit"), request.param
    text = "\n".join(sentences(lang, 300, 12))
    (folder / "text.txt").write_text(text, encoding="utf-8")
    vocab.run(
        vocab.VocabConfig(str(folder / "v"), {lang: (str(folder / "text.txt"),)}, size=len(set(text)) + 8)
    )
    processor = vocab.load_processor(folder / "v")
    pieces = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    return lang, Dictionary(["<s>", "<pad>", "</s>", "<unk>", *pieces, "<mask>"]), processor


def rule(dictionary: Dictionary, unit: str) -> masking.MaskRule:
    settings = MmlmConfig(mask_unit=unit, random_token_prob=0.0)
    return mmlm.rule_of(settings, dictionary)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["word", "span"])
@pytest.mark.parametrize("num_words", [8, 40, 200])
def test_the_share_that_is_masked_is_the_same_in_every_script(
    learned: tuple[str, Dictionary, Any], unit: str, num_words: int
) -> None:
    lang, dictionary, processor = learned
    draw, chosen, total, whole = rng(1, "mask", lang), 0, 0, 0
    masks = rule(dictionary, unit)
    for text in sentences(lang, 4000 // num_words, num_words):
        tokens = np.array([0, *(i + 1 for i in processor.encode(text)), 2])
        found = masking.choose(tokens, masks, draw)
        chosen, total, whole = (
            chosen + len(found),
            total + len(tokens) - 2,
            whole + (len(found) == len(tokens) - 2),
        )
    if lang in UNSPACED or num_words == 200:
        assert whole == 0
        assert chosen / total == pytest.approx(0.15, abs=0.02)


@pytest.mark.parametrize("unit", ["word", "span"])
def test_words_of_scripts_with_spaces_are_masked_as_before(
    learned: tuple[str, Dictionary, Any], unit: str
) -> None:
    lang, dictionary, processor = learned
    if lang in UNSPACED:
        return
    now = rule(dictionary, unit)
    before = dataclasses.replace(now, unspaced=np.zeros_like(now.word_starts))
    for index, text in enumerate(sentences(lang, 50, 8)):
        tokens = np.array([0, *(i + 1 for i in processor.encode(text)), 2])
        assert (masking.choose(tokens, now, rng(index)) == masking.choose(tokens, before, rng(index))).all()


def test_a_word_has_its_signs_and_the_piece_with_the_space() -> None:
    pieces = [
        "▁",
        "▁the",
        "re",
        "学",
        "生",
        "。",
        "ก",
        "ำ",
        "่อ",
        "<0xE5>",
        "<0xAD>",
        "<0xC3>",
        "##ไม",
        "한국",
        "か",
        "ー",
    ]
    begins = [begins_unspaced_word(piece) for piece in pieces]
    wanted = ["学", "生", "ก", "่อ", "<0xE5>", "##ไม", "か"]
    assert [piece for piece, begin in zip(pieces, begins, strict=True) if begin] == wanted
