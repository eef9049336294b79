"""A small crawl of our own in four scripts, drawn from sentences by a seed: WET files and a MediaWiki dump."""

from __future__ import annotations

import bz2
import gzip
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import numpy as np

from xling.core.sampling import rng

SENTENCES = {
    "sw": """Mji mkuu wa nchi yetu uko karibu na bahari kubwa. Watoto wanasoma shuleni kila siku asubuhi na mapema.
Mvua ilinyesha sana usiku wa jana katika milima ya kaskazini. Mkulima alipanda mahindi na maharage shambani kwake.
Wageni wengi walikuja kutazama wanyama wa porini. Serikali imejenga barabara mpya kutoka mjini hadi kijijini.
Mwalimu alieleza historia ya taifa kwa wanafunzi wake. Samaki wengi huvuliwa katika ziwa hili kila mwaka.
Daktari alisema kwamba maji safi ni muhimu kwa afya. Wanawake wa kijiji walianzisha ushirika wa kuuza mboga.
Kitabu hicho kiliandikwa na mwandishi maarufu wa zamani. Gari la moshi huondoka saa mbili kamili asubuhi.
Bei ya mafuta imepanda tena mwezi huu sokoni. Timu yetu ya mpira ilishinda mchezo wa fainali.""",
    "ar": """تقع المدينة القديمة على ضفاف النهر الكبير. يذهب الأطفال إلى المدرسة كل صباح مع أصدقائهم.
هطلت أمطار غزيرة على الجبال الشمالية ليلة أمس. زرع الفلاح القمح والذرة في حقله الواسع.
زار كثير من السياح المتحف الوطني خلال العام الماضي. بنت الحكومة طريقا جديدا يربط العاصمة بالقرى البعيدة.
شرح المعلم تاريخ البلاد لطلابه في الصف. يصطاد الناس أنواعا كثيرة من السمك في هذه البحيرة.
قال الطبيب إن الماء النظيف ضروري لصحة الإنسان. أسست نساء القرية جمعية لبيع الخضروات في السوق.
كتب هذا الكتاب مؤلف مشهور من القرن الماضي. يغادر القطار المحطة في الساعة الثامنة صباحا.
ارتفعت أسعار الوقود مرة أخرى في هذا الشهر. فاز فريقنا لكرة القدم في المباراة النهائية.""",
    "zh": """这座古老的城市位于大河的岸边。孩子们每天早上和朋友一起去学校读书。
昨天晚上北方的山区下了一场大雨。农民在自己的田里种了小麦和玉米。
去年有许多外国游客参观了国家博物馆。政府修建了一条连接首都和乡村的新公路。
老师给学生们讲解了这个国家的历史。人们每年在这个湖里捕捞很多种鱼。
医生说干净的水对人们的健康非常重要。村里的妇女成立了一个出售蔬菜的合作社。
这本书是上个世纪一位著名的作家写的。火车每天早上八点钟准时离开车站。
这个月汽油的价格又上涨了不少。我们的足球队在决赛中赢得了比赛。""",
    "th": """เมืองเก่าแห่งนี้ตั้งอยู่ริมแม่น้ำสายใหญ่
เด็ก ๆ ไปโรงเรียนกับเพื่อนทุกเช้า
เมื่อคืนนี้ฝนตกหนักบนภูเขาทางภาคเหนือ
ชาวนาปลูกข้าวและข้าวโพดในทุ่งนาของตนเอง
ปีที่แล้วมีนักท่องเที่ยวจำนวนมากมาชมพิพิธภัณฑ์แห่งชาติ
รัฐบาลสร้างถนนสายใหม่เชื่อมเมืองหลวงกับหมู่บ้าน
ครูอธิบายประวัติศาสตร์ของประเทศให้นักเรียนฟัง
ชาวบ้านจับปลาหลายชนิดในทะเลสาบแห่งนี้ทุกปี
หมอบอกว่าน้ำสะอาดมีความสำคัญต่อสุขภาพของทุกคน
ผู้หญิงในหมู่บ้านตั้งสหกรณ์เพื่อขายผักในตลาด
หนังสือเล่มนี้เขียนโดยนักเขียนที่มีชื่อเสียงในศตวรรษก่อน
รถไฟออกจากสถานีเวลาแปดโมงเช้าตรงเวลาทุกวัน
ราคาน้ำมันเพิ่มขึ้นอีกครั้งในเดือนนี้
ทีมฟุตบอลของเราชนะการแข่งขันรอบสุดท้าย""",
}
BOILERPLATE = "Home | About us | Contact | Privacy policy and cookies | All rights reserved 2024"
MB = 1 << 20
_FILE_MB = 100
_SHARE_OF_SWAHILI = 0.7
_ENDS = {"sw": ". ", "ar": ". ", "zh": "。", "th": "\n"}


def sentences(lang: str) -> list[str]:
    """The sentences of ``lang`` with their full stops, without line ends."""
    end = _ENDS[lang]
    text = SENTENCES[lang] if lang == "th" else SENTENCES[lang].replace("\n", " " if end == ". " else "")
    parts = [part.strip().rstrip(".。") for part in text.split(end.strip() or "\n")]
    return [part + end.strip() for part in parts if part]


def document(lang: str, *key: int | str) -> str:
    """Three paragraphs of all sentences in some order, and boilerplate; the same for the same key."""
    pool = sentences(lang)
    order = rng("crawl", lang, *key).permutation(len(pool))
    joint = "" if lang == "zh" else " "
    paragraphs = [joint.join(pool[i] for i in order[start : start + 5]) for start in range(0, len(pool), 5)]
    return "\n".join([paragraphs[0], BOILERPLATE, *paragraphs[1:]])


def write_crawl(folder: Path, num_files: int = 3, docs_per_file: int = 24) -> str:
    """Write WET files and a dump under ``folder`` and return the sources that read them."""
    folder.mkdir(parents=True, exist_ok=True)
    langs = list(SENTENCES)
    for number in range(num_files):
        records = []
        for i in range(docs_per_file):
            lang = langs[i % len(langs)]
            body = document(lang, number, i).encode()
            head = (
                f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://{lang}.example/{number}/{i}\r\n"
                f"WARC-Date: 2024-05-{1 + i % 28:02d}T01:58:10Z\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            records.append(gzip.compress(head.encode() + body + b"\r\n\r\n", mtime=0))
        (folder / f"crawl-{number:05d}.warc.wet.gz").write_bytes(b"".join(records))
    for lang in langs:
        pages = "".join(
            f"<page><title>T{i}</title><ns>0</ns><id>{i}</id><revision><text>{document(lang, 'wiki', i)}</text>"
            "</revision></page>"
            for i in range(4)
        )
        (folder / f"{lang}wiki.xml.bz2").write_bytes(bz2.compress(f"<mediawiki>{pages}</mediawiki>".encode()))
    return f"wiki:{folder}/*.bz2,wet:{folder}/*.wet.gz"


def write_large_crawl(folder: Path, num_mb: int) -> int:
    """Write WET files of together ``num_mb`` MiB of text, most of it Swahili; the number of documents."""
    folder.mkdir(parents=True)
    pools = {lang: sentences(lang) for lang in SENTENCES}
    langs = list(pools)
    num_docs = 0
    for number in range(-(-num_mb // _FILE_MB)):
        random = rng("benchmark", number)
        left = min(_FILE_MB, num_mb - number * _FILE_MB) * MB
        with (folder / f"crawl-{number:05d}.warc.wet").open("wb") as handle:
            while left > 0:
                lang = (
                    "sw" if random.random() < _SHARE_OF_SWAHILI else langs[int(random.integers(len(langs)))]
                )
                body = _page(pools[lang], lang, random).encode()
                head = f"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                handle.write(head + body + b"\r\n\r\n")
                left -= len(body)
                num_docs += 1
    return num_docs


def _page(pool: list[str], lang: str, random: np.random.Generator) -> str:
    """A page of some 4 kB: shuffled sentences with words of their own, boilerplate on top and below."""
    order = random.permutation(len(pool))
    marks = random.integers(0, 1 << 40, size=8)
    joint = "" if lang == "zh" else " "
    lines = []
    for i, mark in enumerate(marks.tolist()):
        words = "".join("aeioubkmt"[(mark >> (3 * k)) % 9] for k in range(10))
        chosen = [pool[order[(i * 3 + k) % len(pool)]] for k in range(6)]
        lines.append(joint.join([*chosen[:3], words, *chosen[3:]]))
    return "\n".join([lines[0], BOILERPLATE, *lines[1:], "Contact | Imprint"])


class SilentHandler(SimpleHTTPRequestHandler):
    """Serves a folder over HTTP and says nothing."""

    def log_message(self, *args: object) -> None:
        pass
