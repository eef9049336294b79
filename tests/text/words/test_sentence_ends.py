"""Sentences of every script of the table of languages are cut apart where they end, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core import languages
from xling.text.words.sentence_ends import ALL_ENDS, SENTENCE_ENDS, find_abbreviations, split_sentences

SENTENCES = {
    "Arab": ["هذا بيت كبير.", "یہ گھر ہے۔", "أين البيت؟", "نعم!"],
    "Armn": ["Բոլոր մարդիկ ծնվում են։", "Նրանք ունեն բանականություն:", "Սա տուն է:", "Այո։"],
    "Beng": ["এটি একটি বাড়ি।", "সে গেল।", "কোথায়?", "ভালো।"],
    "Cans": ["ᐃᓄᒃᑎᑐᑦ ᐅᖃᐅᓯᖅ.", "ᓇᓂ?", "ᐅᕙᓂ!", "ᐄ᙮"],
    "Cher": ["ᎯᎠ ᎠᏓᏁᎸ.", "ᎭᏢ?", "ᎠᎭᏂ!", "ᎥᎥ."],
    "Copt": ["ⲡⲁⲓ ⲡⲉ ⲡⲏⲓ.", "ⲉϥⲑⲱⲛ?", "ⲙⲡⲁⲓⲙⲁ!", "ⲁϩⲁ⳾"],
    "Cyrl": ["Это дом.", "Где он?", "Он на ул. Мира, в 1990.", "Да!"],
    "Deva": ["यह अच्छा है।", "वह गया |", "कहाँ है?", "त्याने सांगितले आहेत.", "ते घरी गेले॥"],
    "Ethi": ["ሰው ሁሉ ነው።", "እነርሱ መጡ፡፡", "የት ነው?", "መጣ ::", "አዎ!"],
    "Geor": ["ეს არის სახლი.", "სად არის ი. ჭავჭავაძე?", "კარგია!", "დიახ."],
    "Goth": ["𐌸𐌰𐍄𐌰 𐌹𐍃𐍄 𐍂𐌰𐌶𐌽.", "𐍈𐌰𐍂?", "𐌷𐌴𐍂!", "𐌾𐌰."],
    "Grek": ["Αυτό είναι ένα σπίτι.", "Πού είναι;", "Εδώ!", "Ναι."],
    "Gujr": ["આ ઘર છે.", "તે ગયો।", "ક્યાં છે?", "હા."],
    "Guru": ["ਇਹ ਘਰ ਹੈ।", "ਉਹ ਗਿਆ।", "ਕਿੱਥੇ?", "ਹਾਂ।"],
    "Hans": ["这是一座房子。", "在哪里？", "好！", "他说：“是的。”"],
    "Hant": ["這是一座房子。", "在哪裡？", "好！", "「是的。」"],
    "Hebr": ["זה בית.", "איפה א. ב. יהושע?", "כאן!", "כן."],
    "Jpan": ["これは家です。", "どこですか？", "ここ！", "「行こう。」"],
    "Khmr": ["នេះគឺជាផ្ទះ។", "នៅឯណា?", "នៅទីនេះ!", "បាទ៕"],
    "Knda": ["ಇದು ಮನೆ.", "ಎಲ್ಲಿದೆ?", "ಇಲ್ಲಿ!", "ಹೌದು."],
    "Kore": ["이것은 집이다.", "어디 있니?", "여기!", "그렇다."],
    "Laoo": ["ນີ້ແມ່ນເຮືອນ.", "ຢູ່ໃສ?", "ຢູ່ນີ້!", "ແມ່ນ."],
    "Latn": ["It rains.", "He saw J. Smith, no. 5, in 1990.", "“Where?”", "»Hier.«", "« Oui. »", "Yes… no!"],
    "Mlym": ["ഇത് ഒരു വീടാണ്.", "എവിടെ?", "ഇവിടെ!", "അതെ."],
    "Mymr": ["ဒါက အိမ်ပါ။", "ဘယ်မှာလဲ။", "ဒီမှာ!", "ဟုတ်ကဲ့။"],
    "Nkoo": ["ߡߌ߬ߣߌ߲߬ ߠߎ߬.", "ߞߐ߬ߣߌ߲߬؟", "ߊ߬ ߕߍ߫!", "ߐ߲߬ߤߐ߲߫."],
    "Olck": ["ᱡᱚᱛᱚ ᱦᱚᱲ᱾", "ᱩᱱᱠᱩ ᱫᱚ᱿", "ᱚᱠᱟ ᱨᱮ?", "ᱦᱮᱸ᱾"],
    "Orya": ["ଏହା ଏକ ଘର।", "ସେ ଗଲା।", "କେଉଁଠି?", "ହଁ।"],
    "Sinh": ["මෙය ගෙයකි.", "කොහෙද?", "මෙහි!", "ඔව්෴"],
    "Syrc": ["ܗܢܐ ܗܘ ܒܝܬܐ.", "ܐܝܟܐ؟", "ܗܪܟܐ!", "ܐܝܢ܀"],
    "Tale": ["ᥘᥭᥰ ᥞᥫᥢᥰ。", "ᥕᥧᥱ ᥔᥭᥴ？", "ᥢᥭᥳ！", "ᥓᥬᥲ。"],
    "Taml": ["இது ஒரு வீடு.", "எங்கே?", "அவர்கள் வந்தன.", "ஆம்!"],
    "Telu": ["ఇది ఒక ఇల్లు.", "ఎక్కడ?", "ఇక్కడ!", "అవును."],
    "Tfng": ["ⴰⵙⵙ ⴰⴷ.", "ⵎⴰⵏⵉ?", "ⴷⴰ!", "ⵢⴰⵀ."],
    "Thaa": ["މިއީ ގެއެކެވެ.", "ކޮބާ؟", "މިތާ!", "އާނ."],
    "Thai": ["นี่คือบ้าน!", "อยู่ที่ไหน?", "อยู่ที่นี่!", "ใช่๛"],
    "Tibt": ["འདི་ནི། ཁང་པ་དང་། ས་ཞིང་རེད།", "ག་པར་ཡོད།", "འདི་རུ་ཡོད༎", "རེད། །"],
    "Yiii": ["ꊿ ꂷ。", "ꈍ？", "ꑌ！", "ꐯ。"],
}  # fmt: skip


def test_every_script_of_the_languages_has_its_ends() -> None:
    written = {language.script for language in languages.LANGUAGES.values()} - {languages.NO_SCRIPT}
    assert written == set(SENTENCES)
    assert written <= set(SENTENCE_ENDS)


@pytest.mark.parametrize("script", SENTENCES)
def test_a_line_is_cut_where_its_sentences_end(script: str) -> None:
    wanted = SENTENCES[script] * 4
    short = frozenset({"no", "ул"})
    assert split_sentences(" ".join(wanted), short) == wanted


@pytest.mark.parametrize("mark", ["৷", "᭟", "᰻", "꩝", "᪨", "꛳"])
def test_marks_of_other_scripts_end_a_sentence(mark: str) -> None:
    assert split_sentences(f"a b{mark} c d{mark}") == [f"a b{mark}", f"c d{mark}"]


@pytest.mark.parametrize("line", [
    "It costs 3.50 or 4.5", "no end", "Yahoo! is a firm; “Why?” he asked", "am 3. Mai und am 100. Geburtstag", "12:30",
    "५.५ है", "5．6", "a|b | c", "ժամը 12:30 է", "x; y", "ი. ჭავჭავაძე",
    "Dr. Otieno met Mrs. Kim and St. Mary vs. Prof. Lee", "कल डॉ. शर्मा आए", "Wizara ya Mhe. Juma", "проф. Иванов",
])  # fmt: skip
def test_these_are_one_sentence(line: str) -> None:
    assert split_sentences(line) == [line]


def test_scripts_without_spaces_need_none_behind_a_mark() -> None:
    assert split_sentences("真的吗?他说!是。好") == ["真的吗?", "他说!", "是。", "好"]
    assert split_sentences("ប្រជាជន។ពួកគេ?យើង") == ["ប្រជាជន។", "ពួកគេ?", "យើង"]


def test_thai_is_cut_at_spaces_that_may_part_sentences() -> None:
    sentence = "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติและสิทธิ"
    assert split_sentences(" ".join([sentence] * 5)) == [sentence] * 5
    assert split_sentences(" ".join([sentence] * 2)) == [
        " ".join([sentence] * 2)
    ]  # no longer than a sentence may be


def test_a_word_with_a_full_stop_before_small_letters_is_an_abbreviation() -> None:
    lines = ["See approx. five and approx. six.", "It rains. Then it stops.", "ეს. ის. ეს."]
    assert find_abbreviations(lines) == {"approx"}


@given(st.text(st.sampled_from([*sorted(ALL_ENDS), *" aAქ1ก中।|:;»“\u200b"]), max_size=40))
def test_no_character_is_lost(line: str) -> None:
    def letters(text: str) -> str:
        return "".join(text.split())

    assert letters("".join(split_sentences(line))) == letters(line)
