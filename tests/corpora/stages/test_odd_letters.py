"""One odd letter in a text by itself, and lines beside it: put right, or dropped with a reason, never kept unseen."""

from __future__ import annotations

import pytest

from xling.corpora.stages.repair import Repair
from xling.text.document import LONE, Document

ALONE = [
    ("de", "cp1252", "cp850", "Für das vierte Quartal werden wieder Verluste erwartet."),
    ("de", "cp1252", "cp437", "Möchtet ihr mit mir eine Boyband bilden?"),
    ("de", "cp1252", "mac_roman", "Danke für die Blumen."),
    ("de", "cp850", "cp1252", "Das Gebäude wurde gerade erst aufwendig saniert."),
    ("fr", "cp1252", "cp850", "Était-il possible de combattre ces animaux en plein air?"),
    ("fr", "cp1252", "cp437", "Complétons notre cours de droit par la folie et la nourriture."),
    ("es", "cp1252", "cp850", "Era un ladrón de poca monta que no llegaba ni a ratero"),
    ("es", "cp1252", "cp437", "¿no hubiesen ellos vivido?"),
    ("it", "cp1252", "mac_roman", "Tonò una voce dall'interno della carrozza."),
    ("it", "cp1252", "cp850", "Io il caffè non lo voglio."),
    ("pt", "cp1252", "cp437", "Qual foi a razão para o aumento?"),
    ("fr", "cp1252", "latin-1", "Dieu venge lui-même l’innocence."),
    ("it", "cp1252", "iso8859_15", "Pensava: – Io non ho casa, io non ho nessuno."),
    (
        "ru",
        "cp1251",
        "mac_cyrillic",
        "Вы можете посмотреть встречу Трампа с избирателями Западной Вирджинии.",
    ),
    ("ru", "koi8_r", "mac_cyrillic", "Вполне умеренные вещи, и все это знают."),
    ("bg", "cp1251", "iso8859_5", "Внезапно се чу зад тях силно тропане по Балдювата порта."),
    ("uk", "cp1251", "mac_cyrillic", "Ми зійшли з валу і побігли до монастиря."),
]


def of_line(text: str) -> Document:
    return Document("a/0", text, form=LONE)


@pytest.mark.parametrize(("lang", "written", "read", "right"), ALONE)
def test_a_line_by_itself_with_one_odd_letter_is_put_right(
    lang: str, written: str, read: str, right: str
) -> None:
    damaged = right.encode(written).decode(read)
    assert damaged != right
    assert Repair(lang=lang).edit(of_line(damaged)).text == right
    assert Repair(lang=lang).edit(of_line(right)).text in (None, right)


@pytest.mark.parametrize(
    ("lang", "text"),
    [("de", "Reine Gew¦hnungssache."), ("en", "The caf┌ is closed.")],
)
def test_what_no_code_page_explains_is_dropped_with_a_reason(lang: str, text: str) -> None:
    assert Repair(lang=lang).edit(of_line(text)).reason == "mojibake"


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("de", "Die Stadt Málaga, CO₂ und 26 ºC."), ("fr", "Le mot « naïveté » de Dvořák coûte 5 €."),
        ("cy", "Mab i löwr o Gymru oedd Roy Jenkins."), ("it", "Kavanaugh´s e l”arma segreta."),
        ("el", "Το µποϊκοτάζ συνεχίζεται."), ("mt", "Kant, drama u żfin."), ("ca", "La col·lecció és aquí."),
        ("ru", "Её сын ёрзал, а м² стоил 5€."), ("en", "▁The ▁state ▁of ▁things"), ("zh", "他说──好。"),
        ("ja", "彼は──いや。"),
        ("en", "● One ■ Two"),
        ("en", "Let x²y, a≤b and 3½ cups be."),
    ],
)  # fmt: skip
def test_right_text_with_rare_letters_and_signs_stays(lang: str, text: str) -> None:
    verdict = Repair(lang=lang).edit(of_line(text))
    assert (verdict.reason, verdict.text or text) == (None, text)


def test_good_lines_beside_damaged_ones_keep_their_dashes() -> None:
    good = ["— Търговците са пладнешки крадци!", "Една овца — най-обикновена — се чешеше.", "„Елбасан.“"]
    bad = [
        "Внезапно се чу зад тях тропане.",
        "Каква е таз работа, дядо?",
        "Пиха вода войниците, а след тях Мурад.",
    ]
    lines = [*good, *(line.encode("cp866").decode("cp1252", "ignore") for line in bad)]
    verdicts = list(Repair(lang="bg").edits([of_line(line) for line in lines]))
    assert [verdict.text or line for verdict, line in zip(verdicts[:3], good, strict=True)] == good


def test_lines_that_lost_a_sign_before_a_blank_are_told_by_the_others() -> None:
    right = [
        "¿ Me recibes, Julia?",
        "Él era un ladrón de poca monta.",
        "¿ No quería más señales?",
        "Qué español tan loco.",
    ]
    docs = [of_line(line.encode("cp1252").decode("cp437")) for line in right]
    assert [verdict.text for verdict in Repair(lang="es").edits(docs)] == right


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("mos", "A baasame n yeel tι yaa tιlae tι d tek d tagsgã."),
        ("bm", "U ye tɔgɔba sɔrɔ kosɛbɛ bεnkansεbεn kɔnɔna na san kεmε daminε na."),
        ("ff", "Yummaббe udditino mawђu noddirteɗo, e laamбe бoybbe mawбe kucondirɗo ɗon."),
    ],
)
def test_letters_typed_for_those_that_a_keyboard_lacks_are_kept(lang: str, text: str) -> None:
    for stage in (Repair(lang=lang), Repair()):
        verdict = stage.edit(of_line(text))
        assert (verdict.reason, verdict.text) in ((None, text), ("", text))
    mixed = Repair(lang="sw").edit(of_line("Kaбaв kuτaλ mтoв naγπω saфb wλtш haжc."))
    assert mixed.reason == "mojibake"
