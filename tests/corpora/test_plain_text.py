"""Plain text as people have it: any encoding and line end, no blank lines, lists of sentences, one-line documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import sentences
from tests.corpora.reading import read
from xling.core import languages
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.settings import config
from xling.corpora.common.shards import read_corpus
from xling.corpora.mono import MonoConfig
from xling.corpora.parallel.settings import ParallelConfig
from xling.corpora.parallel.sources import PAIR_SOURCES, SourceContext
from xling.corpora.sources.source import CUT_NOTE
from xling.corpora.sources.text import LIST_NOTE
from xling.corpora.stages import near_duplicates as near
from xling.text.document import LONE, Document, Ledger
from xling.text.files.corpus_reader import read_documents, read_lines
from xling.text.files.encodings import guess_encoding
from xling.text.files.globs import matching_files
from xling.text.long_texts import cut_text, is_list_of_sentences
from xling.text.tokenised import tokenised_kind, undo

SAMPLES = {
    "fr": "L'été dernier, la bibliothèque de notre ville a été rénovée à grands frais.",
    "de": "Die Straße führt über die Brücke zum Fluß, wo früher große Schiffe lagen.",
    "es": "El niño está en su habitación; mañana irá a ver a su tía, ¿dónde está la estación?",
    "pl": "Książka leży na półce, a żółw śpi pod łóżkiem w ciepłym pokoju.",
    "tr": "Çocuklar öğleden sonra parkta oynadılar ve şarkı söylediler, güneş ılıktı.",
    "lv": "Bērni pēcpusdienā spēlējās parkā, un māte viņiem lasīja garu stāstu.",
    "ru": "Дети играли в парке после обеда; Моя мать читала им длинную сказку, и я слушал.",
    "el": "Τα παιδιά έπαιζαν στο πάρκο το απόγευμα και η μητέρα διάβαζε.",
    "ar": "لعب الأطفال في الحديقة بعد الظهر وقرأت لهم الأم قصة طويلة.",
    "zh": "这座城市的图书馆经过长时间的修缮之后重新开放，许多市民前来参观。",
    "zh_Hant": "這座城市的圖書館經過長時間的修繕之後重新開放，許多市民前來參觀。",
    "ja": "この町の図書館は長い工事のあとで新しくなり、多くの人が訪れました。",
    "ko": "이 도시의 도서관은 오랜 공사 끝에 다시 문을 열었고 많은 시민이 찾았다.",
}
LEGACY = [
    ("fr", "cp1252"), ("fr", "mac_roman"), ("de", "latin-1"), ("pl", "cp1250"), ("tr", "cp1254"), ("lv", "cp1257"),
    ("ru", "cp1251"), ("ru", "koi8_u"), ("ru", "cp866"), ("el", "cp1253"), ("ar", "cp1256"), ("zh", "gb18030"),
    ("zh_Hant", "big5hkscs"), ("ja", "cp932"), ("ja", "euc_jp"), ("ko", "cp949"),
    ("de", "cp850"), ("fr", "cp850"), ("es", "cp850"), ("tr", "cp857"), ("ru", "mac_cyrillic"), ("ru", "iso8859_5"),
    ("el", "cp737"), ("ja", "iso2022_jp_2"), ("ko", "iso2022_kr"), ("zh", "hz"), ("zh", "utf-7"),
]  # fmt: skip
ENGLISH = sentences("en")


def mono(out: Path, source: str, lang: str = "en", **changes: Any) -> str:
    data = {"lang": lang, "out": str(out), "source": source} | changes
    return str(run_local("corpus mono", config.from_dict(MonoConfig, data), 1))


@pytest.mark.parametrize(("lang", "codec"), LEGACY)
@pytest.mark.parametrize("scheme", ["text", "lines", "jsonl"])
def test_a_file_in_a_legacy_encoding_is_refused_with_its_name(
    lang: str, codec: str, scheme: str, tmp_path: Path
) -> None:
    rows = [f"{SAMPLES[lang]} {i}" for i in range(9)]
    if scheme == "jsonl":
        rows = [json.dumps({"text": row}, ensure_ascii=False) for row in rows]
    (tmp_path / "a.txt").write_bytes("\n\n".join(rows).encode(codec))
    if not (raw := "\n\n".join(rows).encode(codec)).isascii():
        assert guess_encoding(raw, lang) == codec.replace("latin-1", "cp1252")
    with pytest.raises(
        UserError, match=r"a\.txt is not UTF-8; it is probably .*iconv -f \S+ -t UTF-8 .*a\.txt"
    ):
        read(f"{scheme}:{tmp_path}/a.txt", lang)


def test_a_rare_letter_of_windows_1252_is_enough(tmp_path: Path) -> None:
    text = "\n\n".join(ENGLISH * 2)
    (tmp_path / "a.txt").write_bytes((text + "\n\nThe café is closed – until May.").encode("cp1252"))
    with pytest.raises(UserError, match=r"Windows-1252 .*iconv -f CP1252"):
        read(f"text:{tmp_path}/a.txt", "en")
    # Damage in UTF-8 is no other encoding: the file is read.
    (tmp_path / "b.txt").write_bytes(("Ünde " * 200).encode() + b"\xff\xfe abc")
    (doc,), ledger = read(f"text:{tmp_path}/b.txt", "en")
    assert doc.text.count("\ufffd") == 2
    assert ledger.notes["text with bytes that are not UTF-8"] == 1


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-8"])
@pytest.mark.parametrize("lang", ["fr", "zh", "ar"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_utf_16_and_32_are_read_with_a_mark_and_refused_without(
    lang: str, codec: str, end: str, tmp_path: Path
) -> None:
    texts = [f"{SAMPLES[lang]}\n{SAMPLES[lang]} {i}" for i in range(4)]
    raw = "\n\n".join(texts).replace("\n", end)
    (tmp_path / "a.txt").write_bytes(("\ufeff" + raw).encode(codec))
    assert [doc.text for doc in read(f"text:{tmp_path}/a.txt", lang)[0]] == texts
    assert len(read(f"lines:{tmp_path}/a.txt", lang)[0]) == 8
    assert list(read_lines(tmp_path / "a.txt")) == "\n\n".join(texts).split("\n")
    if codec != "utf-8":
        (tmp_path / "b.txt").write_bytes(raw.encode(codec))
        name = codec.replace("-le", " little-endian").replace("-be", " big-endian").upper()[:6]
        for reader in (
            lambda: read(f"text:{tmp_path}/b.txt", lang),
            lambda: list(read_lines(tmp_path / "b.txt")),
        ):
            with pytest.raises(UserError, match=rf"{name}.* without a byte order mark.*iconv -f {name}"):
                reader()


@pytest.mark.parametrize(
    "border",
    ["", " \u00a0\t\u3000", "\ufeff", "\u200b", "\x0c", "\u2003", "\u2029", "\u3164", "\u2800", "\u180e"],
)
def test_a_line_that_looks_blank_ends_a_document(border: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"a\nb\n{border}\nc\n{border}\n{border}\nd", encoding="utf-8")
    assert [doc.text for doc in read(f"text:{tmp_path}/a.txt")[0]] == ["a\nb", "c", "d"]
    assert list(read_documents([str(tmp_path / "a.txt")])) == [["a", "b"], ["c"], ["d"]]


def test_a_form_feed_ends_a_document(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\nb\x0cc\nd\n\x0ce", encoding="utf-8")
    assert [doc.text for doc in read(f"text:{tmp_path}/a.txt")[0]] == ["a\nb", "c\nd", "e"]
    assert list(read_documents([str(tmp_path / "a.txt")])) == [["a", "b"], ["c", "d"], ["e"]]


def test_separators_of_unicode_end_paragraphs_and_documents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\u2029b\u2029\u2029c\u2028d", encoding="utf-8")
    assert [doc.text for doc in read(f"text:{tmp_path}/a.txt")[0]] == ["a\nb", "c\nd"]
    assert list(read_documents([str(tmp_path / "a.txt")])) == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"PK\x03\x04", "ZIP"),
        (b"PK\x05\x06", "empty ZIP"),
        (b"%PDF-1.7", "PDF"),
        (b"PAR1", "Parquet"),
        (b"7z\xbc\xaf\x27\x1c", "7z"),
        (b"ARROW1", "Arrow"),
        (b"\x04\x22\x4d\x18", "lz4"),
        (b"\x1f\x9d\x90", "compress"),
        (b"]\x00\x00\x80", "lzma"),
        (b"{\\rtf1", "RTF"),
        (b"a.txt" + bytes(252) + b"ustar", "tar archive"),
    ],
)
def test_other_files_are_named(head: bytes, what: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(head + bytes(range(256)) * 4)
    with pytest.raises(UserError, match=f"is .*{what}.*, not text"):
        read(f"text:{tmp_path}/a.txt")


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.sampled_from("ab. \n。!”"), min_size=1, max_size=300), max_chars=st.integers(5, 60))
def test_cut_pieces_are_short_and_hold_everything(text: str, max_chars: int) -> None:
    text = "\n".join(filter(None, map(str.strip, text.split("\n")))) or "a"
    pieces = cut_text(text, max_chars)
    assert all(0 < len(piece) <= max_chars for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_a_long_line_is_cut_at_sentence_ends() -> None:
    line = " ".join(ENGLISH)
    pieces = cut_text(line, 1000)
    assert " ".join(pieces) == line
    assert all(piece.endswith(".") for piece in pieces)
    assert cut_text("。".join("柏林是德国的首都" for _ in range(9)), 20)[0].endswith("。")


@pytest.mark.parametrize("lang", ["en", "ar", "th"])
def test_lists_of_sentences_are_told_from_paragraphs(lang: str) -> None:
    rows = sentences(lang)
    assert is_list_of_sentences(rows)
    assert not is_list_of_sentences(rows[:20])  # too few to tell
    glue = " "
    paragraphs = [glue.join(rows[i : i + 4]) for i in range(0, 400, 4)]
    assert is_list_of_sentences(paragraphs) == (lang == "th")  # Thai marks no ends
    wrapped = [" ".join(rows)[i : i + 70].strip().lower() for i in range(0, 7000, 70)]
    assert lang != "en" or not is_list_of_sentences(wrapped)


def test_isolated_sentences_are_documents_and_the_output_says_so(tmp_path: Path) -> None:
    rows = [row for row in ENGLISH[:200] if row]
    (tmp_path / "a.txt").write_text("\n".join(rows), encoding="utf-8")
    said = mono(tmp_path / "out", f"text:{tmp_path}/a.txt", near_dedup="false")
    assert f"{len(rows)} of {len(rows)} documents" in said
    assert f"{LIST_NOTE}: 1" in said
    docs = list(read_corpus(tmp_path / "out"))
    assert [doc.text for doc in docs] == rows
    assert {doc.form for doc in docs} == {LONE}
    # A limit that is given counts for lines, too; and a build that loses most says why.
    strict = {"settings": {"length": {"min_chars": str(max(map(len, rows)))}}}
    said = mono(tmp_path / "strict", f"lines:{tmp_path}/a.txt", near_dedup="false", **strict)
    assert "less than half was kept; most was dropped by length/short" in said
    assert "setting: settings.length.min_chars=" in said


def test_a_line_of_another_language_goes_and_short_ones_stay(tmp_path: Path) -> None:
    foreign = [
        "Wajumbe wa baraza la mji walikutana jana jioni kujadili daraja la zamani.",
        "Ich weiß es nicht.",
    ]
    rows = [*ENGLISH[:98], "Nun ja.", *foreign]
    (tmp_path / "a.txt").write_text("\n".join(rows), encoding="utf-8")
    mono(tmp_path / "out", f"lines:{tmp_path}/a.txt", near_dedup="false")
    assert [doc.text for doc in read_corpus(tmp_path / "out")] == rows[:99]


def test_documents_without_a_line_break_are_kept(tmp_path: Path) -> None:
    texts = [" ".join(ENGLISH[i : i + 12]) for i in range(0, 120, 12)]
    texts[0] = texts[0][:-9]  # a last sentence that is cut off
    texts[1] = "- " + texts[1]
    (tmp_path / "a.jsonl").write_text(
        "\n".join(json.dumps({"text": text}) for text in texts), encoding="utf-8"
    )
    said = mono(tmp_path / "out", f"jsonl:{tmp_path}/a.jsonl", near_dedup="false")
    assert "10 of 10 documents" in said
    # Once more they are duplicates, and this is what the error says.
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "x"}) + "\n", encoding="utf-8")
    with pytest.raises(
        UserError, match=r"length/short 1 \(short: .*fewer than min_chars.*settings.length.min_chars="
    ):
        mono(tmp_path / "b", f"jsonl:{tmp_path}/b.jsonl")


def test_rows_that_end_in_a_comma_are_read_and_told(tmp_path: Path) -> None:
    rows = [json.dumps({"text": text}) for text in ENGLISH[:3]]
    (tmp_path / "a.json").write_text("[\n" + ",\r\n".join(rows) + "\n]\n", encoding="utf-8")
    said = mono(tmp_path / "out", f"jsonl:{tmp_path}/a.json", before_dedup="repair", after_dedup=[])
    assert [doc.text for doc in read_corpus(tmp_path / "out")] == ENGLISH[:3]
    assert "3 of 3 documents (100.0 %)" in said
    assert "JSON rows with a comma at their end, read without it: 2" in said


@pytest.mark.parametrize(
    ("row", "reason"),
    [("12", "not a JSON object"), ('{"a": "b"}', "no text field"), ('{"text": 1}', "not text")],
)
def test_lost_rows_count_though_they_have_no_characters(row: str, reason: str, tmp_path: Path) -> None:
    text = json.dumps({"text": ENGLISH[0]})
    (tmp_path / "a.jsonl").write_text("\n".join([row, text, row]), encoding="utf-8")
    said = mono(tmp_path / "out", f"jsonl:{tmp_path}/a.jsonl", before_dedup="repair", after_dedup=[])
    assert "1 of 3 documents (33.3 %)" in said
    assert f"less than half was kept; most was dropped by read/{reason}: 2 documents" in said


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_bad_units_of_marked_files_are_counted(encoding: str, tmp_path: Path) -> None:
    good = f"{ENGLISH[0]}\n\n{ENGLISH[1]}\n\n{ENGLISH[2]}".encode(encoding)
    bad = "\ud83d".encode(encoding, "surrogatepass")
    (tmp_path / "a.txt").write_bytes("\ufeff".encode(encoding) + good + bad)
    said = mono(tmp_path / "out", f"text:{tmp_path}/a.txt", before_dedup="repair", after_dedup=[])
    assert "documents with U+FFFD in the place of what could not be decoded: 1" in said


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_sentences_of_a_published_corpus_are_read_back_as_sentences(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(ENGLISH[:120]), encoding="utf-8")
    mono(tmp_path / "once", f"lines:{tmp_path}/a.txt", near_dedup="false")
    pl.read_parquet(tmp_path / "once" / "shards" / "*.parquet").write_ndjson(tmp_path / "once.jsonl")
    files = "once/shards/*.parquet" if kind == "parquet" else "once.jsonl"
    said = mono(tmp_path / "twice", f"{kind}:{tmp_path}/{files}", near_dedup="false")
    assert "120 of 120 documents (100.0 %)" in said
    forms = [doc.form for doc in read_corpus(tmp_path / "twice")]
    assert forms == [LONE] * 120


@pytest.mark.parametrize(
    "meta", [1, "", "x", "[]", {"form": "other"}, {"form": ["lone"]}, '{"form": "lone', None]
)
def test_other_meta_says_nothing_on_the_form(meta: Any, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a", "meta": meta}), encoding="utf-8")
    assert [doc.form for doc in read(f"jsonl:{tmp_path}/a.jsonl", "en")[0]] == [""]


def test_a_long_row_is_cut_and_not_lost(tmp_path: Path) -> None:
    text = "\n".join(" ".join(ENGLISH[i : i + 5]) for i in range(0, 500, 5))
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}), encoding="utf-8")
    said = mono(
        tmp_path / "out", f"jsonl:{tmp_path}/a.jsonl", max_chars="5000", near_dedup="false", after_dedup=[]
    )
    docs = list(read_corpus(tmp_path / "out"))
    assert "\n".join(doc.text for doc in docs) == text
    assert max(len(doc.text) for doc in docs) <= 5000
    assert [doc.id for doc in docs] == [f"a/0.{i}" for i in range(len(docs))]
    assert f"{CUT_NOTE}: {len(docs)}" in said


def test_of_near_duplicates_the_one_with_fewest_replacement_characters_stays(tmp_path: Path) -> None:
    good = " ".join(ENGLISH[:20])
    texts = ["x\ufffd" + good, "\ufffd\ufffd" + good, "another text", good, good]
    docs = [Document(str(i), text) for i, text in enumerate(texts)]
    cfg = near.NearDedup()
    near.sketch_shard(docs, tmp_path / "0", cfg)
    near.find_pairs([tmp_path / "0"], range(cfg.bands), tmp_path / "pairs")
    assert near.choose_dropped([tmp_path / "pairs"], [tmp_path / "0"], tmp_path / "out", cfg) == 3
    ledger = Ledger()
    kept = list(near.drop_near_duplicates(docs, 0, tmp_path / "out", ledger))
    assert [doc.id for doc in kept] == ["2", "3"]
    assert kept[1].meta["cluster_size"] == 4


@pytest.mark.parametrize(
    ("kind", "text", "plain"),
    [
        ("words apart", "It &apos;s a &quot; red &quot; house &#91; 4 &#93; .", 'It\'s a "red" house [4].'),
        ("words apart", "The well @-@ known man did n't come .", "The well-known man didn't come."),
        ("words apart", "He paid 1 @,@ 250 @.@ 50 dollars .", "He paid 1,250.50 dollars."),
        ("words apart", "Das Haus ist rot , sagte er .", "Das Haus ist rot, sagte er."),
        ("words apart", "The -LRB- red -RRB- house is big .", "The (red) house is big."),
        ("BPE", "The low@@ er@@ ed house was new .", "The lowered house was new."),
        ("SentencePiece", "▁The ▁house ▁i s ▁red .", "The house is red."),
        ("marks of training", "<s> The house is red . </s>", "The house is red."),
        ("marks of training", "__en__ The house is red .", "The house is red."),
        ("WordPiece", "The house was re ##build ##ing slow ##ly .", "The house was rebuilding slowly."),
        ("joiners", "the</w> ho use</w> was</w> big</w>", "the house was big"),
        ("joiners", "The house ￭'￭ s door ￭, big ￭.", "The house's door, big."),
        ("byte-level BPE", "The Ġhouse Ġis ĠÃ©n orme", "The house is énorme"),
        ("marks of training", "[CLS] the house is big [SEP] the door [SEP]", "the house is big the door"),
        ("words apart", "我 喜欢 学习 汉语 。 今天 天气 很 好 。", "我喜欢学习汉语。今天天气很好。"),
        ("words apart", "これ は 家 です 。 どこ です か ？", "これは家です。どこですか？"),
        ("SentencePiece", "▁これは テスト です 。", "これはテストです。"),
        ("SentencePiece", "▁— ▁Юрас ю.", "— Юрасю."),
        ("SentencePiece", "▁Юрас ю.", "Юрасю."),
        ("SentencePiece", "▁ 我 喜欢 吃 苹果 。", "我喜欢吃苹果。"),
        ("SentencePiece", "▁สวัสดี ครับ ผม ชื่อ สม ชาย", "สวัสดีครับผมชื่อสมชาย"),
        ("marks of training", ">>fra<< The house is red.", "The house is red."),
        ("marks of training", ">>cmn_Hans<< The house is red.", "The house is red."),
        ("marks of training", "<|im_start|> It is red.<|endoftext|>", "It is red."),
        ("marks of training", "The house is <extra_id_0> red.", "The house is red."),
        ("marks of training", "The house is red. </s> [en_XX]", "The house is red."),
        ("marks of training", "swh_Latn Nyumba ni nyekundu.", "Nyumba ni nyekundu."),
        ("words apart", "`` The house is red , '' he said .", '"The house is red," he said.'),
        ("words apart", "Which ( as I said ) is it", "Which (as I said) is it"),
        ("byte-level BPE", "ÐŁÑĢÐ¸ Ð²ÐµÑĤ ĠÐ¼ Ð¸ÑĢ", "Привет мир"),
        ("words apart", "Tôi là sinh_viên của trường đại_học", "Tôi là sinh viên của trường đại học"),
        ("words apart", "ຂ້ອຍ ຮັກ ແມວ ຫຼາຍ ແລະ ຫມາ ຂອງ ຂ້ອຍ", "ຂ້ອຍຮັກແມວຫຼາຍແລະຫມາຂອງຂ້ອຍ"),
        ("words apart", "ខ្ញុំ ស្រឡាញ់ ឆ្មា និង ឆ្កែ របស់ ខ្ញុំ", "ខ្ញុំស្រឡាញ់ឆ្មានិងឆ្កែរបស់ខ្ញុំ"),
        ("", "use snake_case and my_name here", "use snake_case and my_name here"),
        (
            "",
            "Ġorġ u Ġanni marru l-Ġermanja fuq il-vapur il-kbir.",
            "Ġorġ u Ġanni marru l-Ġermanja fuq il-vapur il-kbir.",
        ),
        (
            "",
            "东京 大阪 名古屋 在日本。这座城市的图书馆经过修缮。",
            "东京 大阪 名古屋 在日本。这座城市的图书馆经过修缮。",
        ),
        ("tagged words", "The_DT red_JJ house_NN is_VBZ big_JJ ._.", "The red house is big."),
        ("tagged words", "The|the|DT houses|house|NNS are|be|VBP big|big|JJ .|.|.", "The houses are big."),
        ("tagged words", "The￨DT red￨JJ house￨NN is￨VBZ big￨JJ .￨.", "The red house is big."),
        (
            "tagged words",
            "Das/DET Haus/NOUN ist/AUX rot/ADJ/O ,/, sagte/VERB er/PRON",
            "Das Haus ist rot, sagte er",
        ),
        ("tagged words", "我/r 喜欢/v 学习/v 汉语/n 。/w 今天/t", "我喜欢学习汉语。今天"),
        ("words apart", "ฉัน|รัก|แมว|และ|หมา|มาก", "ฉันรักแมวและหมามาก"),
        (
            "",
            "He/she and/or they went 5 km/h to the snake_case file a/b",
            "He/she and/or they went 5 km/h to the snake_case file a/b",
        ),
        ("", "Plain text: it's written, isn't it?", "Plain text: it's written, isn't it?"),
        ("", "Vraiment ? Oui : « c'est ça » !", "Vraiment ? Oui : « c'est ça » !"),
        ("", "Write to a@b.example @ 5 p.m. & wait …", "Write to a@b.example @ 5 p.m. & wait …"),
    ],
)
def test_tokenised_text_is_told_and_put_together(kind: str, text: str, plain: str) -> None:
    assert tokenised_kind(text) == kind
    assert undo(text, "en") == plain
    assert undo(plain, "en") == plain


def test_elisions_of_french_and_italian_are_put_together() -> None:
    assert undo("l &apos; homme n' avait pas d' eau , non .", "fr") == "l'homme n'avait pas d'eau, non."
    assert undo("Dell' acqua e l' uomo , non c' è .", "it") == "Dell'acqua e l'uomo, non c'è."


def test_a_build_names_the_share_of_tokenised_text(tmp_path: Path) -> None:
    rows = [row.replace(".", " .") for row in ENGLISH[:60]] + ENGLISH[60:120]
    (tmp_path / "a.txt").write_text("\n".join(rows), encoding="utf-8")
    said = mono(tmp_path / "out", f"lines:{tmp_path}/a.txt", near_dedup="false")
    assert "50.0 % was tokenised before (words apart 60); before_dedup=repair,detokenise," in said
    assert "50.0 % was tokenised before" in (tmp_path / "out" / "card.md").read_text(encoding="utf-8")
    undone = mono(
        tmp_path / "undone",
        f"lines:{tmp_path}/a.txt",
        near_dedup="false",
        before_dedup=["repair", "detokenise"],
    )
    assert "(words apart 60); which was undone" in undone
    assert [doc.text for doc in read_corpus(tmp_path / "undone")] == ENGLISH[:120]


def test_folders_with_the_signs_of_globs_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "news [2024]" / "a*"
    folder.mkdir(parents=True)
    for name in ("b.txt", "a.txt", ".hidden.txt"):
        (folder / name).write_text("text", encoding="utf-8")
    assert matching_files(f"{folder}/*.txt") == [folder / "a.txt", folder / "b.txt"]
    assert matching_files(f"{tmp_path}/**/b.*") == [folder / "b.txt"]
    assert matching_files(f"{folder}/.h*") == [folder / ".hidden.txt"]
    assert matching_files(str(tmp_path)) == []
    assert len(read(f"text:{folder}/*.txt")[0]) == 2


@pytest.mark.parametrize("stem", ["a+b", "c,d", "plain"])
def test_moses_files_have_any_name(stem: str, tmp_path: Path) -> None:
    for lang in ("en", "sw"):
        (tmp_path / f"{stem}.{lang}").write_text("one\n", encoding="utf-8")
    context = SourceContext(languages.get("en"), languages.get("sw"))
    for rest in (f"{tmp_path}/{stem}", f"{tmp_path}/{stem}.en+{tmp_path}/{stem}.sw"):
        (source,) = PAIR_SOURCES["moses"].open(rest, context)
        assert list(source.rows(Ledger())) == [("one", "one", "")]


@pytest.mark.parametrize(
    ("lang", "source", "said"),
    [
        ("all", "wiki:", r"'wiki:' is of one language, and lang=all names several"),
        ("sw,eu", "cc100:", r"'cc100:' is of one language, and lang=sw,eu names several"),
        ("sw", "text:a.txt", r"a\.txt is not UTF-8; it is probably Windows-1252"),
        ("sw", "jsonl:b.jsonl", r"jq -c"),
        ("sw", "text:c.txt", r"none of 1 documents is left: length/short 1"),
    ],
)
def test_a_mistake_leaves_nothing_beside_the_output(
    lang: str, source: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_bytes("L'été dernier à la plage".encode("cp1252"))
    Path("b.jsonl").write_text("[1]\n[2]\n", encoding="utf-8")
    Path("c.txt").write_text("short", encoding="utf-8")
    with pytest.raises(UserError, match=said):
        mono(Path("out"), source, lang)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.jsonl", "c.txt"]


def test_tokenised_pairs_are_named_and_put_together(tmp_path: Path) -> None:
    for lang in ("en", "sw"):
        rows = [f"{word} is red , said the man ." for word in ENGLISH[0].split()[:5]]
        (tmp_path / f"a.{lang}").write_text("\n".join(rows), encoding="utf-8")
    data = {"pair": "en-sw", "source": f"moses:{tmp_path}/a", "filters": "repair", "audit": "false"}
    data |= {"dev_pairs": "0", "test_pairs": "0"}
    raw = config.from_dict(ParallelConfig, data | {"out": str(tmp_path / "raw")})
    assert "100.0 % was tokenised before (words apart 5); settings.repair.tokenised=true undoes it" in str(
        run_local("corpus parallel", raw, 1)
    )
    undone = {"out": str(tmp_path / "undone"), "settings": {"repair": {"tokenised": "true"}}}
    run_local("corpus parallel", config.from_dict(ParallelConfig, data | undone), 1)
    found = (tmp_path / "undone" / "train.en").read_text(encoding="utf-8").splitlines()
    assert found[0] == f"{ENGLISH[0].split()[0]} is red, said the man."
