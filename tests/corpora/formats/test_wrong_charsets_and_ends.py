"""Catalogues that say another charset than theirs, members of 7 bits, and rows that other characters than feeds end."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.corpora.reading import read
from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.parallel.sources import SourceContext, open_sources
from xling.text.document import Ledger

ENGLISH = ["Cannot open file", "Hello, world", "Please choose an option", "Save changes?", "Out of paper"]
MESSAGES = {
    "zh": ["文件无法打开", "你好，世界", "请选择一个选项", "保存更改吗？", "打印机没有纸了"],
    "zh_Hant": ["檔案無法開啟", "你好，世界", "請選擇一個選項", "儲存變更嗎？", "印表機沒有紙了"],
    "ja": ["ファイルを開けません", "こんにちは、世界", "項目を選択", "変更を保存しますか", "用紙がありません"],
    "ko": ["파일을 열 수 없습니다", "안녕하세요, 세계", "옵션을 선택하십시오", "변경을 저장할까요", "용지가 없습니다"],
    "ru": ["Не удалось открыть файл", "Привет, мир", "Выберите вариант", "Сохранить изменения?", "Нет бумаги"],
    "th": ["ไม่สามารถเปิดไฟล์", "สวัสดีชาวโลก", "โปรดเลือกตัวเลือก", "บันทึกหรือไม่", "ไม่มีกระดาษ"],
}  # fmt: skip
PAIRS = [(f"House number {i} is old", f"Nyumba namba {i} ni ya zamani") for i in range(6)]


def rows(uri: str, tgt: str, ledger: Ledger) -> list[tuple[str, str]]:
    context = SourceContext(languages.get("en"), languages.get(tgt))
    return [(src, text) for source in open_sources([uri], context) for src, text, _ in source.rows(ledger)]


@pytest.mark.parametrize(
    ("lang", "written", "said"),
    [
        ("zh", "gb18030", "BIG5"), ("zh", "gb18030", "EUC-KR"), ("zh", "gb18030", "EUC-JP"), ("zh", "gbk", "GB2312"),
        ("zh_Hant", "big5", "GBK"), ("ja", "euc_jp", "SHIFT_JIS"), ("ja", "euc_jp", "GB2312"), ("ja", "cp932", "GBK"),
        ("ko", "cp949", "GB2312"), ("ko", "cp949", "EUC-JP"), ("ru", "koi8_r", "CP1251"), ("ru", "cp1251", "KOI8-R"),
        ("th", "cp874", "GBK"), ("ru", "koi8_r", "KOI8-R"), ("ja", "cp932", "SHIFT_JIS"),
    ],
)  # fmt: skip
def test_a_catalogue_is_read_in_the_page_of_its_language(
    tmp_path: Path, lang: str, written: str, said: str
) -> None:
    head = f'msgid ""\nmsgstr ""\n"Language: {lang}\\n"\n"Content-Type: text/plain; charset={said}\\n"\n\n'
    pairs = list(zip(ENGLISH, MESSAGES[lang], strict=True))
    text = head + "".join(f'msgid "{src}"\nmsgstr "{tgt}"\n\n' for src, tgt in pairs)
    (tmp_path / "a.po").write_bytes(text.encode(written))
    ledger = Ledger()
    assert rows(f"po:{tmp_path}/a.po", lang, ledger) == pairs
    same = said in ("GB2312", "KOI8-R", "SHIFT_JIS") and written in ("gbk", "koi8_r", "cp932")
    assert [note for note in ledger.notes if "in which they are" in note] == (
        []
        if same
        else [f"catalogues that say {said}, read as {written}, in which they are {languages.get(lang).name}"]
    )


@pytest.mark.parametrize("end", ["\f", "\x1c", "\x1d", "\x1e", "\x1f", "\x0b", "\x85", "\u2028", "\r"])
@pytest.mark.parametrize("scheme", ["moses", "tsv", "csv", "jsonl", "verses"])
def test_rows_of_pairs_end_at_whatever_ends_all_of_them(tmp_path: Path, end: str, scheme: str) -> None:
    sides = list(zip(*PAIRS, strict=True))
    lines = {
        "tsv": [f"{src}\t{tgt}" for src, tgt in PAIRS],
        "csv": ["en,sw", *(f"{src},{tgt}" for src, tgt in PAIRS)],
        "jsonl": [json.dumps({"en": src, "sw": tgt}) for src, tgt in PAIRS],
    }
    if scheme in lines:
        (tmp_path / "a").write_text(end.join(lines[scheme]) + end, encoding="utf-8", newline="")
        uri = f"{scheme}:{tmp_path}/a"
    else:
        for name, texts in zip(("a.en", "a.sw"), sides, strict=True):
            keys = [f"GEN.1.{i}\t" if scheme == "verses" else "" for i in range(6)]
            content = end.join(map("".join, zip(keys, texts, strict=True)))
            (tmp_path / name).write_text(content + end, encoding="utf-8", newline="")
        uri = f"{scheme}:{tmp_path}/a" + (f".en+{tmp_path}/a.sw" if scheme == "verses" else "")
    assert rows(uri, "sw", Ledger()) == PAIRS


@pytest.mark.parametrize("end", ["\x1c", "\x1e", "\x0b", "\x85", "\u2028", "\r"])
@pytest.mark.parametrize("scheme", ["lines", "jsonl"])
def test_documents_end_at_whatever_ends_all_of_them(tmp_path: Path, end: str, scheme: str) -> None:
    texts = [tgt for _, tgt in PAIRS]
    lines = [json.dumps({"text": text}) for text in texts] if scheme == "jsonl" else texts
    (tmp_path / "a").write_text(end.join(lines) + end, encoding="utf-8", newline="")
    assert [doc.text for doc in read(f"{scheme}:{tmp_path}/a")[0]] == texts


@pytest.mark.parametrize(
    "text", ["Le café est fermé à Noël.", "Где вы были вчера?", "昨日はどこに行きましたか。"]
)
@pytest.mark.parametrize(
    ("scheme", "member"), [("docx", "word/document.xml"), ("xlsx", "xl/sharedStrings.xml")]
)
def test_members_in_seven_bits_are_named(tmp_path: Path, text: str, scheme: str, member: str) -> None:
    for name, body in (("a", text.encode("utf-7")), ("b", text.encode())):
        with zipfile.ZipFile(tmp_path / f"{name}.{scheme}", "w") as archive:
            archive.writestr(member, b"<w><p><t>1 + 2, c+d</t></p><p><t>" + body * 5 + b"</t></p></w>")
    with pytest.raises(UserError, match=f"{member} is not UTF-8; it is probably UTF-7"):
        rows(f"{scheme}:{tmp_path}/a.{scheme}", "sw", Ledger())
    with pytest.raises(UserError) as told:
        rows(f"{scheme}:{tmp_path}/b.{scheme}", "sw", Ledger())
    assert "UTF-7" not in str(told.value)
