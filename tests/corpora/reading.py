"""Texts in four scripts, and a source read from its beginning to its end with every record accounted for."""

from __future__ import annotations

from xling.corpora.sources.source import Context, open_source, unique_names
from xling.text.document import Document, Ledger

TEXTS = [
    "Habari za leo\nMji mkuu wa Kenya ni Nairobi.",
    "برلين هي عاصمة ألمانيا\nيعود أول توثيق للمدينة إلى القرن الثالث عشر.",
    "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย\nมีประชากรมากที่สุดในประเทศ",
    "柏林是德国的首都\n也是德国最大的城市。",
]


def read(uri: str, lang: str = "sw", **settings: object) -> tuple[list[Document], Ledger]:
    source = open_source(uri, Context(lang=lang, **settings))  # type: ignore[arg-type]
    ledger = Ledger()
    shards = unique_names(source.shards())
    docs = [doc for shard in shards for doc in source.read(shard, ledger)]
    assert ledger.seen["read"] == len(docs) + sum(ledger.dropped.values())
    assert not ledger.unaccounted_bytes(), ledger.num_bytes
    return docs, ledger
