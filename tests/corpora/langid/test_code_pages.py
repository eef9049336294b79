"""Text that was written in one code page and read in another comes back; right text stays."""

import pytest

from xling.corpora.langid.code_pages import CodePages, WrongCodePage
from xling.corpora.stages.repair import Repair
from xling.text.document import Document

TEXTS = {
    "pl": "Człowiek ten zgubiłby nas wszystkich, gdyby został dłużej w dolinie, więc skinął na żołnierzy.",
    "cs": "Příliš žluťoučký kůň úpěl ďábelské ódy, když se večer vracel domů přes řeku.",
    "hu": "A férfi megkérdezte, hogy mikor érkezik a következő vonat, és leült a tűzhöz.",
    "ro": "Mulţi membri ai adunării sunt îngrijoraţi că ar putea să îşi piardă locurile.",
    "tr": "Bazı üyelerin adının değişmesi önerisi, mecliste endişeye yol açtı ve görüşüldü.",
    "lt": "Žmonės gimsta laisvi ir lygūs savo orumu bei teisėmis, jiems suteiktas protas ir sąžinė.",
    "ru": "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    "uk": "Усі люди народжуються вільними і рівними у своїй гідності та правах.",
    "bg": "Всички хора се раждат свободни и равни по достойнство и права.",
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "he": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "ar": "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق وقد وهبوا عقلاً وضميراً.",
    "th": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติและสิทธิ",
    "zh": "人人生而自由，在尊严和权利上一律平等。",
    "ja": "すべての人間は、生まれながらにして自由であり、尊厳と権利とについて平等である。",
    "ko": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "fr": "Les élus gallois sont consternés par une idée visant à remplacer leur titre à l’assemblée.",
    "de": "Wir müssen die Straße überqueren, bevor es später wird und die Türen schließen.",
    "mt": "Il-bnedmin kollha jitwieldu ħielsa u ugwali fid-dinjità u d-drittijiet; huma mogħnija bir-raġuni.",
    "eo": "Ĉiuj homoj estas denaske liberaj kaj egalaj laŭ digno kaj rajtoj; ili posedas racion, kaj ŝanĝas aĵojn.",
    "cy": "Mae pob tŷ a phob gŵr yn y dref hon yn gyfartal; cafodd y ddŵr ei gludo i’r tŷ gan y gŵr ifanc.",
    "is": "Hver maður er borinn frjáls og jafn öðrum að virðingu og réttindum; menn eru gæddir vitsmunum og þörf.",
}  # fmt: skip
DAMAGE = [
    ("mt", "iso8859_3", "cp1252"), ("eo", "iso8859_3", "latin-1"), ("cy", "iso8859_14", "cp1252"),
    ("is", "mac_iceland", "cp1252"), ("ro", "iso8859_16", "cp1252"), ("ro", "mac_romanian", "cp1252"),
    ("pl", "cp1250", "cp1252"), ("pl", "iso8859_2", "cp1252"), ("pl", "cp1250", "cp1251"), ("cs", "cp1250", "cp1252"),
    ("hu", "cp1250", "cp1252"), ("ro", "cp1250", "cp1252"), ("tr", "cp1254", "cp1252"), ("lt", "cp1257", "cp1252"),
    ("ru", "cp1251", "cp1252"), ("ru", "koi8_r", "cp1252"), ("ru", "koi8_r", "cp1251"), ("ru", "cp1251", "koi8_r"),
    ("ru", "cp866", "cp1252"), ("ru", "iso8859_5", "cp1251"), ("uk", "cp1251", "cp1252"), ("uk", "koi8_u", "cp1252"),
    ("bg", "cp1251", "cp1252"), ("el", "cp1253", "cp1252"), ("el", "cp1253", "mac_roman"), ("he", "cp1255", "cp1252"),
    ("ar", "cp1256", "cp1252"), ("th", "cp874", "cp1252"), ("zh", "gb18030", "cp1252"), ("ja", "cp932", "cp1252"),
    ("ja", "euc_jp", "cp1252"), ("ko", "cp949", "cp1252"), ("fr", "cp1252", "cp1251"), ("fr", "mac_roman", "cp1252"),
    ("fr", "cp1252", "mac_roman"), ("de", "cp1252", "cp1251"), ("de", "cp850", "mac_roman"),
]  # fmt: skip


def misread(text: str, written: str, read: str) -> str:
    """The text as a program shows it that takes its bytes for another code page."""
    data = text.encode(written, "ignore")
    return "".join(chr(b) if b < 0x80 else bytes([b]).decode(read, "ignore") or chr(b) for b in data)


@pytest.mark.parametrize(("lang", "written", "read"), DAMAGE)
def test_what_was_read_in_another_code_page_comes_back(lang: str, written: str, read: str) -> None:
    right = TEXTS[lang].encode(written, "ignore").decode(written)
    damaged = misread(right, written, read)
    assert damaged != right
    assert WrongCodePage.of(lang).mend([damaged, "plain", right]) == [right, "plain", right]


def test_hungarian_in_which_few_letters_are_wrong_comes_back() -> None:
    lines = [
        "Minden emberi lény szabadon születik és egyenlő méltósága és joga van, ez az alap és a cél.",
        "Az emberek, ésszel és lelkiismerettel bírván, egymással szemben testvéri szellemben kell hogy viseltessenek.",
        "Az elismerés és a tiszteletben tartás végső célja a méltányos követelmény, amely egyetemű.",
        "Ezek a jogok senkitől el nem vehetők, és a szabadság mindenkit megillet a világon.",
    ]
    damaged = [misread(line, "cp1250", "cp1252") for line in lines]
    assert "".join(damaged).count("õ") == 4
    assert WrongCodePage.of("hu").mend(damaged) == lines
    # Foreign names in right text stay, and so do a few in a text too short to tell.
    names = ["São Paulo, Võru, Põlva és Jõgeva szép helyek a világban, menjünk el oda mind a hárman."]
    assert WrongCodePage.of("hu").mend(names) == names
    assert WrongCodePage.of("hu").mend(["Võru, Põlva, Jõgeva"]) == ["Võru, Põlva, Jõgeva"]


@pytest.mark.parametrize("lang", TEXTS)
def test_right_text_stays_in_every_language(lang: str) -> None:
    lines = [*TEXTS.values(), "25 m² für 30 £ (±5 %), 3½ µm", "Þórir Guðmundsson", "été…", "Ærøskøbing"]
    assert WrongCodePage.of(lang).mend(lines) == lines
    assert CodePages.of("all").mend(lines) == lines


@pytest.mark.parametrize(
    ("lang", "written", "read"), [d for d in DAMAGE if d[0] in ("ru", "el", "pl", "tr", "zh", "ar")]
)
def test_it_comes_back_where_the_language_is_unknown(lang: str, written: str, read: str) -> None:
    right = TEXTS[lang].encode(written, "ignore").decode(written)
    assert CodePages.of("all").mend([misread(right, written, read)] * 2) == [right] * 2


def test_signs_that_no_code_page_explains_stay_where_the_language_is_unknown() -> None:
    lines = ["ᚠ\x80ᚢ\x81ᚦ\x82 ᚨ\x8d"]
    assert CodePages.of("all").mend(lines) == lines


def test_one_letter_is_believed_beside_lines_of_the_same_kind() -> None:
    damaged = misread(TEXTS["tr"], "cp1254", "cp1252")
    lines = [damaged, damaged[:60], damaged[20:], "Ýstanbul"]
    assert WrongCodePage.of("tr").mend(lines)[3] == "İstanbul"


@pytest.mark.parametrize(("text", "reason"), [
    ("Des membres de l?Assembl?e sont ?lus et consult?s ? Paris.", "lost_letters"),
    ("??? ???? ????????? ?????????? ? ??????.", "lost_letters"),
    ("Was? Wie? Wo denn? See https://a.example/x?id=1&b=c?d and watch?v=abc.", None),
    ("‡‡Ë†Å¡Ã‚¯¿½‡‡ ‡‡Ë†Å", "mojibake"), ("Ærøskøbing – 25 m², „so“ › été…", None),
])  # fmt: skip
def test_what_cannot_be_mended_is_dropped_with_its_reason(text: str, reason: str | None) -> None:
    assert Repair(lang="fr").edit(Document("1", text)).reason == reason


def test_the_stage_mends_lines_in_both_ways_before_the_language_is_told() -> None:
    lines = [TEXTS["ru"], misread(TEXTS["ru"], "cp1251", "cp1252"), misread(TEXTS["ru"], "utf-8", "koi8_r")]
    verdict = Repair(lang="ru").edit(Document("1", "\n".join(lines)))
    assert verdict.text == "\n".join([TEXTS["ru"]] * 3)
    assert verdict.notes == {"repaired_unicode": 1}
