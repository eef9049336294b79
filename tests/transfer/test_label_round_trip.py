"""Labels of words survive every vocabulary in 36 languages: none is lost, none counted twice, cut words are wrong."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xling.eval.metrics import METRICS, evaluate
from xling.eval.rows.suite import Example, load, suites
from xling.text import vocab
from xling.transfer.encode import UNK, encode_pieces
from xling.transfer.task import TASKS
from xling.transfer.tasks.intent_slots import INTENT_PREFIX

# Article 1 of the Universal Declaration of Human Rights; zh, ja and th with spaces between words.
ARTICLE = {
    "am": "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።",
    "ar": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
    "bg": "Всички хора се раждат свободни и равни по достойнство и права.",
    "bn": "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।",
    "cs": "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "en": "All human beings are born free and equal in dignity and rights.",
    "es": "Todos los seres humanos nacen libres e iguales en dignidad y derechos.",
    "eu": "Gizon-emakume guztiak aske jaiotzen dira, duintasun eta eskubide berberak dituztela.",
    "fa": "تمام افراد بشر آزاد به دنیا می‌آیند و از لحاظ حیثیت و حقوق با هم برابرند.",
    "fi": "Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "he": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "hi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "hu": "Minden emberi lény szabadon születik és egyenlő méltósága és joga van.",
    "id": "Semua orang dilahirkan merdeka dan mempunyai martabat dan hak yang sama.",
    "it": "Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti.",
    "ja": "すべて の 人間 は 、 生まれながら に して 自由 で あり 、",
    "ka": "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით.",
    "ko": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "nl": "Alle mensen worden vrij en gelijk in waardigheid en rechten geboren.",
    "pl": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "pt": "Todos os seres humanos nascem livres e iguais em dignidade e em direitos.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "sv": "Alla människor är födda fria och lika i värde och rättigheter.",
    "sw": "Watu wote wamezaliwa huru, hadhi na haki zao ni sawa.",
    "ta": "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "te": "ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును జన్మతః స్వతంత్రులును సమానులును నగుదురు.",
    "th": "มนุษย์ ทั้งหลาย เกิด มา มี อิสระ และ เสมอภาค กัน ใน เกียรติศักดิ์ และ สิทธิ",
    "tr": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar.",
    "uk": "Всі люди народжуються вільними і рівними у своїй гідності та правах.",
    "ur": "تمام انسان آزاد اور حقوق و عزت کے اعتبار سے برابر پیدا ہوئے ہیں۔",
    "vi": "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi.",
    "yo": "Gbogbo ènìyàn ni a bí ní òmìnira; iyì àti ẹ̀tọ́ kọ̀ọ̀kan sì dọ́gba.",
    "zh": "人人 生而自由 ， 在 尊严 和 权利 上 一律 平等 。",
}
VOCABULARIES = ("unigram", "bpe", "few characters")
LENGTHS = (8, 17, 128)


@dataclass
class Row:
    id: str
    fields: dict[str, Any]
    label: Any


@pytest.fixture(scope="module", params=VOCABULARIES)
def processor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Both kinds of SentencePiece, and one of Latin letters alone: other scripts are unknown."""
    folder = tmp_path_factory.mktemp("round-trip")
    small = request.param == "few characters"
    (folder / "en.txt").write_text(
        "\n".join([ARTICLE["en"]] if small else ARTICLE.values()), encoding="utf-8"
    )
    vocab.run(
        vocab.VocabConfig(
            corpora={"en": (str(folder / "en.txt"),)},
            out=str(folder / "vocab"),
            size=30 if small else 620,
            coverage=1.0,
            model="unigram" if small else request.param,
        )
    )
    return vocab.load_processor(folder / "vocab")


def round_trip(processor: Any, words: Sequence[str], max_length: int) -> None:
    """Give every word a label of its own and read them back from the places that carry a prediction."""
    labels = tuple(f"word {n}" for n in range(len(words)))
    row = Row("1", {"tokens": tuple(words)}, labels)
    windows = TASKS["tag"].encode(processor, row, labels, max_length)
    assert [t for w in windows for t in w["target"].tolist()] == list(range(len(words)))
    perfect = [(w, np.eye(len(labels))[w["target"]]) for w in windows]
    found = TASKS["tag"].decode(labels, row, perfect)
    assert found == labels
    assert all(len(set(w["chosen"].tolist())) == len(w["chosen"]) for w in windows)
    for word, token in zip(words, (t for w in windows for t in w["tokens"][w["chosen"]]), strict=True):
        assert token == [*encode_pieces(processor, word), UNK][0]
    rows = [Example("1", row.fields, labels)]
    assert evaluate(METRICS["tag_accuracy"], rows, [found], "en")[1].tolist() == [[len(words), len(words)]]
    joint = (INTENT_PREFIX + "say", *labels)
    utterance = Row("1", row.fields, ("say", labels))
    windows = TASKS["intent_slots"].encode(processor, utterance, joint, max_length)
    perfect = [(w, np.eye(len(joint))[w["target"]]) for w in windows]
    assert TASKS["intent_slots"].decode(joint, utterance, perfect) == ("say", labels)


def cut_words_are_wrong(words: Sequence[str]) -> None:
    """A system that saw only the first words is scored on all of them."""
    for seen in range(len(words)):
        gold = [Example("1", {"tokens": tuple(words)}, ("B-PER",) * len(words))]
        answers = [["B-PER"] * seen + [None] * (len(words) - seen)]
        value, rowstats = evaluate(METRICS["tag_accuracy"], gold, answers, "en")
        assert rowstats.tolist() == [[seen, len(words)]] and value == pytest.approx(100 * seen / len(words))
        assert evaluate(METRICS["span_f1"], gold, answers, "en")[1].tolist() == [[seen, seen, len(words)]]


@pytest.mark.parametrize("lang", ARTICLE)
def test_no_word_of_any_language_loses_its_label(processor: Any, lang: str) -> None:
    words = ARTICLE[lang].split()
    assert len(words) > 4
    for max_length in LENGTHS:
        round_trip(processor, words, max_length)
        round_trip(processor, ["".join(words), *words, "\u200b", ""], max_length)
    cut_words_are_wrong(words)


@pytest.mark.data
def test_no_word_of_real_sentences_loses_its_label(processor: Any) -> None:
    data, suite, checked = Path(os.environ["XLING_DATA"]), suites()["ntrex"], 0
    for lang in suite.languages:
        if suite.has(lang, "test", data):
            for example in load(suite, lang, "test", data)[:40]:
                round_trip(processor, example.fields["text_a"].split(), 64)
            checked += 1
    assert checked >= 30
