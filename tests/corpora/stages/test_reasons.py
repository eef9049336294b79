"""Each drop reason of the small stages, by an example that it alone drops."""

from __future__ import annotations

import gzip
import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.corpora import stages
from xling.corpora.builtin.limits import Limits
from xling.corpora.stages import Stage
from xling.corpora.stages.blocklist import Blocklist
from xling.corpora.stages.contamination import Contamination
from xling.corpora.stages.filters import Filters, first_failed_rule, measure
from xling.corpora.stages.length import Length
from xling.corpora.stages.pii import Pii, mask
from xling.corpora.stages.repair import Repair, repair
from xling.text.document import LONE, TITLED, Document, Ledger
from xling.text.words.units import split_units, unspaced_share

LISTS = Path(__file__).parent / "lists"


def reason(stage: Stage, text: str, url: str = "", lang: str = "") -> str:
    ledger = Ledger()
    kept = list(stage([Document(id="0", text=text, url=url, lang=lang)], ledger))
    assert len(kept) + len(ledger.dropped) == 1
    return next((why for _, why in ledger.dropped), "")


# Unicode repair ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        ("Ã©tÃ© dÃ©jÃ\xa0", "été déjà"),
        ("â€œYesâ€\x9d", "“Yes”"),
        ("ÐŸÑ€Ð¸Ð²ÐµÑ‚", "Привет"),
        ("nothing wrong\nbut HabÃ­a", "nothing wrong\nbut Había"),
        ("cafe\u0301", "café"),
        ("a\x07b\ufeffc\u00add", "abcd"),
        ("one\r\ntwo\u2028three\x0bfour\rfive", "one\ntwo\nthree\nfour\nfive"),
        (" a\tb \n\n \n c", "a b\nc"),
        ("می‌خواهم", "می‌خواهم"),  # the zero-width non-joiner is spelling
        ("«A» – ﬁ １", "«A» – ﬁ １"),  # no compatibility folding
        ("Ángel â la carte", "Ángel â la carte"),
    ],
)
def test_repair(broken: str, mended: str) -> None:
    assert repair(broken) == mended


@given(st.text() | st.text("Ã©â€œ\x9d\u0301eaÐ\n\t \x85\r\u2028"))
def test_repair_twice_is_repair_once(text: str) -> None:
    once = repair(text)
    assert repair(once) == once
    assert "\n\n" not in once
    once.encode()  # no lone surrogates


@given(
    st.text()
    | st.text(
        "ab é“Ã©Å\u0301\n\t\x85\xa0\xad\u2028\u1161\u093c\u09be\uf900\ud800\ufeff가中\u3099か🙂\U0002f800"
    )
)
def test_clean_text_is_text_that_no_repair_changes(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages.repair, "_is_clean", lambda _: False)
        mended = repair(text)
    assert repair(text) == mended


def test_most_pages_are_found_clean_at_once() -> None:
    for page in ("", "Title\nÉl dijo “no”\xa0— a\xf1os", "中文，\u3000好", "मराठी\nকো 한국어", "now 🙂"):
        assert stages.repair._is_clean(page), page
    for page in (
        " a",
        "a\n b",
        "a\n\nb",
        "a\u3000\nb",
        "a\tb",
        "e\u0301",
        "Ã©",
        "a\xadb",
        "a\u2028b",
        "\ud800",
        "a\n",
    ):
        assert not stages.repair._is_clean(page), page


def test_repair_reasons() -> None:
    assert reason(Repair(), " \n\x00\ufeff ") == "empty"
    assert reason(Repair(), "abc \ufffd") == "undecodable"
    assert reason(Repair(max_replacement_ratio=0.5), "abc \ufffd") == ""


# Length ------------------------------------------------------------------------------------------------


def test_length_is_that_of_the_body() -> None:
    for text, form, expected in (
        ("t" * 299, "", "short"),
        ("t" * 300, "", None),
        ("t\n" + "x" * 298, "", None),
        ("t\n" + "x" * 299, TITLED, "short"),
        ("t\n" + "x" * 300, TITLED, None),
        ("t" * 300, TITLED, None),
        ("t", LONE, None),
    ):
        assert Length().judge(Document("0", text, form=form)) == expected
    assert Length(min_chars=2).judge(Document("0", "t", form=LONE)) == "short"


# Blocklists ----------------------------------------------------------------------------------------------

BLOCK = Blocklist((LISTS / "domains.txt",), (LISTS / "url_words.txt",), (LISTS / "words.txt",))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://bad.example", "blocked_domain"),
        ("https://www.BAD.example:8080/x?y", "blocked_domain"),
        ("https://bad.example.org/", ""),
        ("https://notbad.example/", ""),
        ("https://ok.example/spam/1", "blocked_domain"),
        ("https://ok.example/spammer", ""),
        ("https://a.example/poker-night", "blocked_url_word"),
        ("https://a.example/pokerface", ""),
        ("http://[broken/x", ""),
        ("", ""),
    ],
)
def test_blocked_addresses(url: str, expected: str) -> None:
    assert reason(BLOCK, "fine text", url) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Viagra, casino & POKER " + "word " * 100, "blocked_words"),  # three different ones
        ("casino casino " + "word " * 100, ""),  # one, rarely
        ("casino " * 5 + "word " * 20, "blocked_words"),  # one, often
        ("pokerface casinos " * 9, ""),
        ("欢迎来到赌场" * 3, "blocked_words"),  # no spaces
    ],
)
def test_blocked_words(text: str, expected: str) -> None:
    assert reason(BLOCK, text) == expected


@pytest.mark.parametrize(
    ("url", "kinds", "expected"),
    [
        ("http://www.imagefap.com/gallery.php?type=1", ("adult", "gambling"), "listed_site"),
        ("http://www.imagefap.com/gallery.php?type=1", ("gambling",), None),
        ("https://SPORTS.22bet.com:443/x", ("gambling",), "listed_site"),
        ("https://22bet.com.example/x", ("adult", "gambling"), None),
        ("http://some-porn-tube.example/", ("adult",), "listed_site"),
        ("http://some-porn-tube.example/", (), None),
        ("https://en.wikipedia.org/wiki/Pornography", ("adult", "gambling"), None),
        ("https://com/", ("adult", "gambling"), None),
        ("", ("adult", "gambling"), None),
    ],
)
def test_listed_sites(url: str, kinds: tuple[str, ...], expected: str | None) -> None:
    assert Blocklist(builtin=kinds).judge(Document("0", "fine text", url)) == expected


def test_an_unknown_kind_of_sites_is_told() -> None:
    with pytest.raises(UserError, match=r"casino.*adult, gambling"):
        Blocklist(builtin=("casino",))


def test_blocklist_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        reason(Blocklist(domains=(tmp_path / "none",)), "x", "http://a.example")


# Personal data -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("mail a.b+c@ex-ample.co.uk, now", "mail [EMAIL], now"),
        ("почта: иван@пример.рф", "почта: [EMAIL]"),
        ("a@b and x@localhost", "a@b and x@localhost"),
        ("call +49 (0)30 123-4567.", "call [PHONE]."),
        ("Tel.: 030 1234567", "Tel.: [PHONE]"),
        ("simu 0712 345 678 leo", "simu [PHONE] leo"),
        ("电话：010-12345678", "电话：[PHONE]"),
        ("(030) 123 45 67", "[PHONE]"),
        ("+٢٥٤ ٧١٢ ٣٤٥ ٦٧٨", "[PHONE]"),
        ("2024-11-20 12:30:11", "2024-11-20 12:30:11"),
        ("ISBN 978-3-16-148410-0", "ISBN 978-3-16-148410-0"),
        ("$ 1 000 000.00 in 2019-2024", "$ 1 000 000.00 in 2019-2024"),
        ("+1 2", "+1 2"),
        ("the war (1950-1953) and", "the war (1950-1953) and"),
        ("part +254712345678abc", "part +254712345678abc"),
        ("dns 8.8.8.8 and 2001:4860:4860::8888", "dns [IP] and [IP]"),
        (
            "local 192.168.0.1 127.0.0.1 ::1 999.1.1.1 1.2.3.4.5",
            "local 192.168.0.1 127.0.0.1 ::1 999.1.1.1 1.2.3.4.5",
        ),
    ],
)
def test_mask(text: str, masked: str) -> None:
    assert mask(text)[0] == masked


@given(st.text() | st.text("ab1280.:@+()- tel[]EMAILPHONE"))
def test_masking_twice_is_masking_once(text: str) -> None:
    once, _ = mask(text)
    assert mask(once) == (once, {"email": 0, "ip": 0, "phone": 0})


def test_pii_counts_and_reason() -> None:
    ledger = Ledger()
    text = "a@b.org c@d.org 8.8.8.8 +254712345678"
    (doc,) = Pii()([Document(id="0", text=text)], ledger)
    assert doc.text == "[EMAIL] [EMAIL] [IP] [PHONE]"
    assert doc.meta == {"num_pii_email": 2, "num_pii_ip": 1, "num_pii_phone": 1}
    assert ledger.notes == {"pii_email": 2, "pii_ip": 1, "pii_phone": 1}
    assert reason(Pii(max_masked=3), text) == "address_list"


# Contamination -------------------------------------------------------------------------------------------


def test_overlap(tmp_path: Path) -> None:
    words = [f"w{chr(97 + i)}" for i in range(20)]
    sentence = " ".join(words)
    plain, packed, lines = tmp_path / "a.txt", tmp_path / "b.tsv.gz", tmp_path / "c.jsonl"
    plain.write_text(sentence + "\nseven words are not sought at all\n", encoding="utf-8")
    packed.write_bytes(gzip.compress("x\t委员会下周将再次开会讨论有关公共图书馆的新建议\n".encode()))
    lines.write_text(
        json.dumps({"a": [{"b": "eight words in here are sought as whole"}]}) + "\n", encoding="utf-8"
    )
    stage = Contamination((plain, packed, lines))
    assert reason(stage, "Before, " + " - ".join(words[3:16]).upper() + "!") == "overlap"
    assert reason(stage, "before " + " ".join(words[3:15]) + " after") == ""  # twelve
    assert reason(stage, " ".join([*words[:7], "other", *words[7:]])) == "overlap"  # 13 behind the gap
    assert reason(stage, " ".join([*words[:8], "other", *words[8:]])) == ""
    assert reason(stage, "他说委员会下周将再次开会，讨论有关公共图书馆") == "overlap"
    assert reason(stage, "他说委员会下周将再次开会吗") == ""
    assert reason(stage, "these EIGHT words in here are sought as whole.") == "overlap"
    assert reason(stage, "seven words are not sought at all") == ""


def test_evaluation_files_must_hold_text(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no evaluation file at"):
        reason(Contamination((tmp_path / "none.txt",)), "x")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        reason(Contamination((tmp_path / "bad.json",)), "x")
    (tmp_path / "few.txt").write_text("two words\n")
    with pytest.raises(UserError, match="no text of 8 words"):
        reason(Contamination((tmp_path / "few.txt",)), "x")


# Heuristic filters ---------------------------------------------------------------------------------------

WORDS = [a + b + c for a in "bdfgk" for b in "aeiou" for c in ("lmo", "nta", "rsi", "pol")]
GOOD = "\n".join(" ".join(WORDS[i : i + 12]) + "." for i in range(0, 96, 12))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD, ""),
        (" ".join(WORDS[:49]) + ".", "too_few_words"),
        ("", "too_few_words"),
        (GOOD + "x. " * 400_000, "too_many_words"),
        (" ".join("abcdefgh"[i % 8] for i in range(60)) + ".", "mean_word_length"),
        (" ".join(word * 5 for word in WORDS) + ".", "mean_word_length"),
        (GOOD + " # … ... ..." * 4, "symbols"),
        (GOOD + " 1999 2000 2001 2002" * 12, "few_letters"),
        (GOOD + "{}{}{}{}{}{}{}{}{}{}", "braces"),
        (GOOD + "\nLorem Ipsum dolor.", "placeholder"),
        ("\n".join("• " + line for line in GOOD.split("\n")), "bullets"),
        (GOOD.replace(".", "…", 3).replace(".", " …", 2), "ellipses"),
        (GOOD + "\nsame line.\nsame line." * 3, "repeated_lines"),
        (GOOD + "\n" + GOOD.split("\n")[0] * 3 + "\n" + GOOD.split("\n")[0] * 3, "repeated_lines"),
        (GOOD.replace(".", ""), "unended_lines"),
        (GOOD.replace(" ", ".\n"), "short_lines"),
        (GOOD.replace("\n", " one two one two one two one two.\n"), "top_ngram"),
        (GOOD + " " + " ".join(WORDS[3:24]) + " x.", "repeated_runs"),
    ],
)
def test_filter_reasons(text: str, expected: str) -> None:
    limits = Limits(max_braces=0.02, max_placeholders=0, max_short=0.35)
    assert first_failed_rule(measure(text, limits), limits) == expected
    assert reason(Filters(limits), text) == expected
    if expected in ("braces", "placeholder", "short_lines"):
        assert first_failed_rule(measure(text, Limits()), Limits()) == "", (
            "FineWeb-2's ablations dropped these rules"
        )


def test_limits_by_language() -> None:
    long_words = " ".join(a + b + "kilometri" for a, b in itertools.pairwise(WORDS)) + "."
    assert reason(Filters(), long_words) == "mean_word_length"
    changed = Filters(per_lang={"eng_Latn": {"max_mean_word": 20}}, stop_words={"en": ()})
    assert reason(changed, long_words, lang="en") == ""
    assert (
        reason(Filters(per_lang={"en": {"max_mean_word": 20}}), long_words, lang="de") == "mean_word_length"
    )
    assert Filters().limits_for("krc").max_mean_word == 14
    assert Filters().limits_for("th").min_ended == 0
    assert Filters(per_lang={"th": {"min_ended": 0.1}}).limits_for("th").min_ended == 0.1
    with pytest.raises(UserError, match="did you mean 'min_words'"):
        Filters(per_lang={"en": {"min_word": 1}})
    with pytest.raises(UserError, match="unknown language"):
        Filters(per_lang={"xyzzy": {"min_words": 1}})


def test_scripts_without_spaces_are_counted_in_characters() -> None:
    text = "\n".join(
        ["委员会下周将再次开会，讨论有关公共图书馆的新建议以及其他几个重要的问题，包括预算。",
         "经济学家认为，今年的增长速度可能比去年慢一些，但是就业情况仍然保持稳定，物价上涨不大。",
         "昨天晚上在北京举行的音乐会吸引了很多年轻听众，演出结束后观众长时间鼓掌表示感谢。"]
    )  # fmt: skip
    assert reason(Filters(), text, lang="zh") == ""
    assert reason(Filters(), text[:60], lang="zh") == "too_few_words"
    assert (
        reason(Filters(), text + "很好很好很好很好很好很好很好很好很好很好很好。" * 2, lang="zh")
        == "top_ngram"
    )


def test_units() -> None:
    assert split_units("Tea, 茶! नमस्ते สวัสดีabc १२३日本") == [
        "tea",
        "茶",
        "नमस्ते",
        "ส",
        "วั",
        "ส",
        "ดี",
        "abc",
        "१२३",
        "日",
        "本",
    ]
    assert split_units("Don't STOP—42") == ["don", "t", "stop", "42"]
    assert split_units("한국어 텍스트") == ["한국어", "텍스트"]
    assert split_units("") == split_units("—") == []
    assert unspaced_share("abc 茶") == 0.25
    assert unspaced_share("123") == 0


ARTICLE = (
    "The council met on Monday to discuss the new library, which will open in spring next year.\n"
    "Many people had come to listen, and some of them spoke about what they hope to find there."
)
MENU = "\n".join(["Home", "About us", "Our shop", "Contact", "Careers", "Press", "Sign in", "Help"])


SLOGANS = f"News\n{MENU}\n{MENU.replace('o', 'a')}\n{MENU.replace('e', 'i')}\nWelcome. Enjoy. Buy."
CUT = "\n".join(f"委员会{i}日再次开会讨论新的建议，\n并且决定了很多事情{i}的办法。" for i in "一二三四五六")
LIST = "\n".join(f"{i}号菜单。" for i in "一二三四五六七八九十百千万亿兆京垓秭穰沟涧正载")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"News\n{MENU}\n{ARTICLE}\n{ARTICLE.replace('library', 'school')}", ""),
        (SLOGANS, "unended_lines"),
        (f"标题\n{CUT}", ""),
        (f"标题\n{LIST}", "short_lines"),
    ],
    ids=["article under a menu", "menu", "lines cut at commas", "list"],
)
def test_lines_are_weighed_by_their_characters(text: str, reason: str) -> None:
    limits = Limits(
        min_words=20,
        max_repeated_runs=1,
        max_top_bigram=1,
        max_top_trigram=1,
        max_top_fourgram=1,
        max_short=0.35,
    )
    limits = replace(limits, max_repeated_lines=1, max_repeated_line_chars=1)
    assert first_failed_rule(measure(text, limits), limits) == reason


@pytest.mark.parametrize("number", range(20))
def test_of_equally_frequent_runs_the_first_counts_in_every_process(number: int) -> None:
    short, long = f"a{number} b{number}", f"library{number} council{number}"
    for first, second in ((short, long), (long, short)):
        words = f"{first} one {second} two {first} three {second}"
        share = 2 * len(first.replace(" ", "")) / len(words.replace(" ", ""))
        assert measure(words, Limits())["top_bigram"] == share
