import dataclasses
import subprocess
import sys
import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core import languages
from xling.core.errors import UserError
from xling.core.languages import (
    LANGUAGES,
    SCHEMES,
    code_for,
    get,
    get_pair,
    matches_script,
    script_of,
    script_shares,
)

# The codes in the file names and label columns of the project's data folder, by source.
DATA_CODES = {
    "ntrex": """
        eng fra deu spa por ita ron nld swe rus ukr bul ell tur arb heb fas hin urd ben tam zho-CN
        jpn kor tha vie ind swa amh yor eus fin
    """,
    "tatoeba": """
        afr amh ang ara ben bre bul ceb cmn cor cym deu dtp ell epo est eus fin fra gla heb hin hrv
        hsb hun hye ido ile ind ita jpn kab kaz khm kor kur lfn lvs max mhr mon nld pes pol por ron
        rus slv spa sqi srp swh tam tha tur uig ukr urd vie zsm
    """,
    "flores": """
        ace_Latn amh_Ethi arb_Arab ben_Beng bul_Cyrl deu_Latn ell_Grek eng_Latn est_Latn eus_Latn
        fin_Latn fra_Latn hau_Latn hin_Deva ind_Latn ita_Latn jpn_Jpan kab_Latn kin_Latn kor_Hang
        nld_Latn pes_Arab por_Latn quy_Latn ron_Latn rus_Cyrl som_Latn spa_Latn swh_Latn tam_Taml
        tel_Telu tha_Thai tur_Latn ukr_Cyrl urd_Arab vie_Latn wol_Latn yor_Latn zho_Hans zul_Latn
        zho_Hant jav_Latn pol_Latn slk_Latn srp_Cyrl mya_Mymr bos_Latn ces_Latn lit_Latn hat_Latn
        kat_Geor mlt_Latn
    """,
    "wiki": "ar bg de en eu fi fr hi id ja ro ru sv sw ta tr ur yo zh",
    "fasttext": """
        af als am an ar arz as ast av az azb ba bar bcl be bg bh bn bo bpy br bs bxr ca cbk ce ceb
        ckb co cs cv cy da de diq dsb dty dv el eml en eo es et eu fa fi fr frr fy ga gd gl gn gom
        gu gv he hi hif hr hsb ht hu hy ia id ie ilo io is it ja jbo jv ka kk km kn ko krc ku kv kw
        ky la lb lez li lmo lo lrc lt lv mai mg mhr min mk ml mn mr mrj ms mt mwl my myv mzn nah nap
        nds ne new nl nn no oc or os pa pam pfl pl pms pnb ps pt qu rm ro ru rue sa sah sc scn sco
        sd sh si sk sl so sq sr su sv sw ta te tg th tk tl tr tt tyv ug uk ur uz vec vep vi vls vo
        wa war wuu xal xmf yi yo yue zh
    """,
    "cc100": """
        af am ar as az be bg bn bn_rom br bs ca cs cy da de el en eo es et eu fa ff fi fr fy ga gd
        gl gn gu ha he hi hi_rom hr ht hu hy id ig is it ja jv ka kk km kn ko ku ky la lg li ln lo
        lt lv mg mk ml mn mr ms my my_zaw ne nl no ns om or pa pl ps pt qu rm ro ru sa sc sd si sk
        sl so sq sr ss su sv sw ta ta_rom te te_rom th tl tn tr ug uk ur ur_rom uz vi wo xh yi yo
        zh-Hans zh-Hant zu
    """,
    "mbart": """
        ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT
        lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL
        hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN
        th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI
    """,
    "": """
        en de fr cs sw wo af am lg nso pt rw st tn xh yo zu ewe eus kab swh wol zul es ar bg tr ur
        zh ko eu aym gn nah quy shp id et ht it qu ta th vi hi ceb da hr nob sk sr sv tl swa yor hau
        fi nl ja kk gsw de-st ru cy el fa ka ky uk zh-CN he mr ml te jv ms bn pa gu lt pl az ro
    """,
}
# Codes of one scheme that mean a script of a language whose main row has the same code.
SHARED = {("zh_Hant", "fasttext"), ("zh_Hant", "wiki"), ("sr_Latn", "wiki")}


@pytest.mark.parametrize("scheme", DATA_CODES)
def test_every_code_of_the_data_and_of_each_scheme_resolves(scheme):
    for code in DATA_CODES[scheme].split():
        lang = get(code, scheme)
        if scheme:
            assert code_for(lang, scheme) == code
        if code != "als":
            assert get(code) == lang


def test_cc100_and_fasttext_lists_are_complete():
    for scheme, count in (("cc100", 116), ("fasttext", 176), ("mbart", 52)):
        listed = DATA_CODES[scheme].split()
        assert len(listed) == len(set(listed)) == count
        assert {getattr(lang, scheme) for lang in LANGUAGES.values()} - {""} == set(listed)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_codes_of_a_scheme_round_trip_and_mean_one_language(scheme):
    seen = Counter()
    for lang in LANGUAGES.values():
        if not getattr(lang, scheme):
            continue
        code = code_for(lang, scheme)
        if (lang.code, scheme) in SHARED:
            assert get(code, scheme).code == lang.base
        else:
            assert get(code, scheme) == lang
            seen[code.lower().replace("-", "_")] += 1
    assert seen
    assert max(seen.values()) == 1


def test_only_one_code_contradicts_itself_between_schemes():
    ambiguous = {key for key, langs in languages._languages_by_code("").items() if len(langs) > 1}
    assert ambiguous == {"als"}
    with pytest.raises(
        UserError, match=r"'als' is ambiguous; valid: gsw \(Swiss German\) or sq \(Albanian\)"
    ):
        get("als")
    assert get("als", "fasttext").code == get("als", "wiki").code == "gsw"
    assert get("als_Latn").code == "sq"


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ("sw swh swa swh_Latn SW Swa_latn swh-Latn sw_KE", "sw"),
        ("zh zho cmn zh-CN ZH_cn zho_Hans zh-Hans zho-CN chi", "zh"),
        ("zh-TW zh_Hant zho_Hant zho-TW zh-hant", "zh_Hant"),
        ("no nb nor nob nob_Latn", "nb"),
        ("nn nno", "nn"),
        ("sr srp srp_Cyrl srp-Cyrl sr-Cyrl scc", "sr"),
        ("hr hrv scr", "hr"),
        ("ro ron rum mo mol", "ro"),
        ("sr_Latn srp-Latn", "sr_Latn"),
        ("tl fil tgl tgl_Latn", "tl"),
        ("ar ara arb arb_Arab ar_AR", "ar"),
        ("fa fas pes per pes_Arab", "fa"),
        ("prs", "prs"),
        ("ku kur kmr kmr_Latn", "ku"),
        ("ckb ckb-Arab", "ckb"),
        ("mhr", "mhr"),
        ("nso ns nso_Latn", "nso"),
        ("ay aym ayr_Latn", "ay"),
        ("nah", "nah"),
        ("qu que quy quy_Latn", "qu"),
        ("gn grn grn_Latn", "gn"),
        ("he iw heb", "he"),
        ("id in ind", "id"),
        ("yue zh_yue yue_Hant", "yue"),
        ("bn_rom bn_Latn", "bn_Latn"),
        ("my_zaw", "my_zaw"),
        ("de-st", "de_st"),
        ("bar", "bar"),
        ("sqi_Latn sq alb", "sq"),
        ("en-US en_GB en_XX", "en"),
    ],
)
def test_codes_that_are_easily_mixed_up(codes, expected):
    assert {code: get(code).code for code in codes.split()} == dict.fromkeys(codes.split(), expected)


@pytest.mark.parametrize(
    ("wrong", "suggested"),
    [
        ("swahilli", "sw"),
        ("Swahili", "sw"),
        ("swx", "sw"),
        ("Jerman", "de"),
        ("basqe", "eu"),
        ("zho_Hanz", "zh"),
    ],
)
def test_an_unknown_code_names_the_nearest_by_code_and_by_name(wrong, suggested):
    with pytest.raises(UserError, match=f"unknown language '{wrong}'.*did you mean .*'{suggested}'") as error:
        get(wrong)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wrong", ["", "sw; rm -rf x", "$(touch x)", "sw\n", " sw", "s" * 5000])
def test_what_is_no_code_is_refused(wrong):
    with pytest.raises(UserError, match="unknown language") as error:
        get(wrong)
    assert "\n" not in str(error.value)


def test_a_scheme_without_the_language_says_which_schemes_have_it():
    with pytest.raises(UserError, match=r"mbart has no code for yo \(Yoruba\); valid: .*flores, ntrex"):
        code_for("yo", "mbart")
    with pytest.raises(UserError, match=r"unknown code scheme 'florse'.*did you mean 'flores'"):
        code_for("yo", "florse")
    with pytest.raises(UserError, match="unknown code scheme"):
        get("yo", "florse")
    assert code_for(get("nb"), "cc100") == "no"
    assert code_for("zh_Hant", "ntrex") == "zho-TW"


def test_pairs():
    assert [lang.code for lang in get_pair("en-sw")] == ["en", "sw"]
    assert [lang.code for lang in get_pair("eng-zho-CN")] == ["en", "zh"]
    assert [lang.code for lang in get_pair("de-st-en")] == ["de_st", "en"]
    for wrong in ("en", "en-en", "en-eng", "en-sw-fr", "en-"):
        with pytest.raises(UserError):
            get_pair(wrong)
    with pytest.raises(UserError, match="unknown language 'swx'"):
        get_pair("en-swx")


def test_the_table_is_immutable_and_well_formed():
    with pytest.raises(TypeError):
        LANGUAGES["xx"] = LANGUAGES["en"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        LANGUAGES["en"].name = "x"
    assert list(LANGUAGES) == sorted(LANGUAGES)
    assert len({lang.name for lang in LANGUAGES.values()}) == len(LANGUAGES)
    for code, lang in LANGUAGES.items():
        assert code == lang.code
        assert lang.name
        assert lang.family
        assert len(lang.iso639_3) == 3
        assert lang.iso639_3.islower()
        assert len(lang.script) == 4
        assert lang.script.istitle()
        assert lang.direction == ("rtl" if lang.script in ("Arab", "Hebr", "Nkoo", "Syrc", "Thaa") else "ltr")
        assert lang.base in LANGUAGES
    without = {lang.code for lang in LANGUAGES.values() if not lang.spaces}
    assert (
        " ".join(sorted(without)) == "blk bo dz gan ja km lo lzh mnw my my_zaw shn tdd th wuu yue zh zh_Hant"
    )


def test_importing_the_table_needs_no_heavy_package():
    probe = "import sys; import xling.core.languages; print({'torch', 'numpy', 'fairseq'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


SAMPLES = {
    "en": "The boy reads a book.",
    "vi": "Cậu bé đang đọc một quyển sách.",
    "ru": "Мальчик читает книгу.",
    "sr": "Дечак чита књигу.",
    "sr_Latn": "Dečak čita knjigu.",
    "el": "Το αγόρι διαβάζει ένα βιβλίο.",
    "ar": "الولد يقرأ كتابا.",
    "fa": "پسر کتاب می‌خواند.",
    "he": "הילד קורא ספר.",
    "hi": "लड़का किताब पढ़ता है।",
    "hi_Latn": "ladka kitaab padhta hai",
    "bn": "ছেলেটি বই পড়ে।",
    "ta": "பையன் புத்தகம் படிக்கிறான்.",
    "te": "అబ్బాయి పుస్తకం చదువుతాడు.",
    "th": "เด็กชายอ่านหนังสือ",
    "lo": "ເດັກຊາຍອ່ານປຶ້ມ",
    "km": "ក្មេងប្រុសអានសៀវភៅ",
    "my": "ကောင်လေး စာအုပ် ဖတ်သည်။",
    "ka": "ბიჭი წიგნს კითხულობს.",
    "hy": "Տղան գիրք է կարդում։",
    "am": "ልጁ መጽሐፍ ያነባል።",
    "ko": "소년이 책을 읽는다.",
    "ja": "少年は本を読む。",
    "zh": "男孩读书。",
    "zh_Hant": "男孩讀書。",
    "si": "පිරිමි ළමයා පොත කියවයි.",
    "dv": "ފިރިހެން ކުއްޖާ ފޮތް ކިޔަނީ",
}


@pytest.mark.parametrize("code", SAMPLES)
def test_scripts_of_sample_sentences(code):
    script = LANGUAGES[code].script
    assert script_of(SAMPLES[code]) == {"Hans": "Hani", "Hant": "Hani"}.get(script, script)
    assert matches_script(SAMPLES[code], code, min_share=1.0)
    other = "ru" if script == "Latn" else "en"
    assert not matches_script(SAMPLES[code], other)


def test_scripts_of_mixtures_and_of_text_without_letters():
    assert script_of("") == script_of("12:30 ... !") == "Zyyy"
    assert not matches_script("12:30", "en", min_share=0.0)
    assert script_of("日本語のテキスト") == "Jpan"
    assert script_of("大韓民國은 民主共和國이다") == "Kore"
    assert matches_script("大韓民國은 民主共和國이다", "ko", 1.0)
    assert script_of("我喜欢iPhone手机和电脑游戏还有音乐") == "Hani"
    assert script_shares("abcд") == {"Latn": 0.75, "Cyrl": 0.25}
    assert matches_script("abcд", "en", 0.75)
    assert not matches_script("abcд", "en", 0.76)


def test_letters_have_the_script_that_unicode_names():
    names = {"Latn": "LATIN", "Cyrl": "CYRILLIC", "Arab": "ARABIC", "Deva": "DEVANAGARI", "Hang": "HANGUL"}
    names |= {"Hani": "CJK", "Thai": "THAI", "Ethi": "ETHIOPIC", "Hebr": "HEBREW", "Armn": "ARMENIAN"}
    for char in map(chr, range(0x20000)):
        name = unicodedata.name(char, "")
        if char.isalpha() and script_shares(char).keys() & names.keys():
            expected = names[next(iter(script_shares(char)))]
            assert expected in name or "MODIFIER" in name or char in "ªµº〆々", (hex(ord(char)), name)


@given(st.text())
def test_shares_add_up_and_every_text_has_a_script(text):
    shares = script_shares(text)
    assert not shares or sum(shares.values()) == pytest.approx(1.0)
    assert (script_of(text) == "Zyyy") == (not any(char.isalpha() for char in text))


@given(st.text(max_size=12))
def test_any_text_is_a_language_or_a_user_error(text):
    try:
        lang = get(text)
    except UserError:
        return
    assert LANGUAGES[lang.code] is lang


@pytest.mark.parametrize(
    ("code", "wanted"),
    [("ewe", "ee"), ("zul", "zu"), ("khm_Khmr", "km"), ("en_ewt", "en_ewt"), ("eng_PUD", "en_PUD"),
     ("sr_Latn", "sr_Latn"), ("als", "als"), ("xx_new", "xx_new"), ("swh", "sw")],
)  # fmt: skip
def test_codes_of_every_scheme_become_ours_and_keep_their_treebank(code: str, wanted: str) -> None:
    assert languages.canonical(code) == wanted


def test_treebanks_of_one_language_are_the_same_and_scripts_are_not() -> None:
    assert (
        languages.get_variant("en_ewt")[0].name == "English" and languages.get_variant("en_ewt")[1] == "ewt"
    )
    assert languages.is_same("en_ewt", "en") and languages.is_same("en_pud", "eng_ewt")
    assert not languages.is_same("sr_Latn", "sr") and not languages.is_same("xx", "en")
    assert languages.is_same("", "") and not languages.is_same("", "en")
    assert {"ee", "ewe"} <= set(languages.spellings("ee")) and "eng_ewt" in languages.spellings("en_ewt")
    with pytest.raises(UserError, match="unknown language 'qqq'"):
        languages.get_variant("qqq_x")


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("sw-TZ", "sw"), ("ha_NG", "ha"), ("am-ET", "am"), ("es-419", "es"), ("es_419", "es"), ("sw-Latn-KE", "sw"),
        ("zh-MO", "zh_Hant"), ("zh-Hant-HK", "zh_Hant"), ("zh_Hans_SG", "zh"), ("sr-Latn-RS", "sr_Latn"),
        ("pa-PK", "pa_PK"), ("en_ewt", "en_ewt"), ("en_GUM", "en_GUM"), ("sw-en", "sw_en"),
    ],
)  # fmt: skip
def test_a_region_is_no_variant(tag: str, code: str) -> None:
    """Data sets of Africa write sw-TZ and ha-NG; treebanks and pairs look alike."""
    assert languages.canonical(tag) == code


def test_pairs_with_regions() -> None:
    assert languages.canonical_pair("en-sw-TZ") == "en-sw" == languages.canonical_side("en-GB-sw-TZ")
    assert languages.canonical_side("sw-TZ") == "sw" and languages.canonical_side("de-en") == "de-en"
    assert [lang.code for lang in languages.get_pair("ha_NG-en")] == ["ha", "en"]
