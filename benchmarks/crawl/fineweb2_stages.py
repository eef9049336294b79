"""FineWeb-2's order of stages for one language, by datatrove; ``benchmarks/cuts.py`` runs it apart.

Facts from huggingface/fineweb-2 (fineweb-2-pipeline.py): MinHash of 5-grams, 14 bands of 8; Gopher's repetition
filter, FineWeb's quality filter without short lines, Gopher's quality filter; ftfy, addresses, symbols. The limits of
a language are a file ``configs/<language>_<Script>.yml`` there; without one datatrove's defaults hold, which are
those of the English FineWeb.

Usage: ``python fineweb2_stages.py IN.jsonl OUT.jsonl LANGUAGE [LIMITS.yml]``. Lines of IN are ``{"text": TEXT}``.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import yaml
from datatrove.data import Document
from datatrove.pipeline.dedup import MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupBuckets
from datatrove.pipeline.filters import FineWebQualityFilter, GopherQualityFilter, GopherRepetitionFilter
from datatrove.pipeline.formatters import FTFYFormatter, PIIFormatter, SymbolLinesFormatter
from datatrove.utils.hashing import HashConfig
from loguru import logger


def without_duplicates(docs: list[Document], lang: str) -> list[Document]:
    """Return one document of each cluster of near-duplicates."""
    config = MinhashConfig(
        hash_config=HashConfig(hash_fc="xxhash", precision=64),
        num_buckets=14,
        hashes_per_bucket=8,
        n_grams=5,
    )
    with tempfile.TemporaryDirectory() as folder:
        places = [f"{folder}/{name}" for name in ("signatures", "buckets", "removed")]
        MinhashDedupSignature(places[0], config=config, language=lang).run(iter(docs), 0, 1)
        for rank in range(config.num_buckets):
            MinhashDedupBuckets(places[0], places[1], config=config).run(None, rank, config.num_buckets)
        MinhashDedupCluster(places[1], places[2], config=config).run(None, 0, 1)
        return list(MinhashDedupFilter(places[2]).run(iter(docs), 0, 1))


def filters(lang: str, limits: dict[str, Any]) -> list[Any]:
    """Return the steps after deduplication."""

    def of(*names: str) -> dict[str, Any]:
        return {name: limits[name] for name in names if name in limits}

    more = {"stop_words": limits["stopwords"]} if "stopwords" in limits else {}
    return [
        GopherRepetitionFilter(
            language=lang,
            dup_para_frac=0,
            dup_line_char_frac=0,
            dup_para_char_frac=0,
            **of("dup_line_frac", "top_n_grams", "dup_n_grams"),
        ),
        FineWebQualityFilter(
            language=lang,
            short_line_thr=999,
            char_duplicates_ratio=0.1,
            **of("line_punct_thr", "new_line_ratio"),
        ),
        GopherQualityFilter(
            language=lang,
            min_stop_words=2,
            **more,
            **of("max_avg_word_length", "min_avg_word_length", "max_non_alpha_words_ratio"),
        ),
        FTFYFormatter(),
        PIIFormatter(),
        SymbolLinesFormatter(symbols_to_remove=["|"], replace_char="\n"),
    ]


def main(source: str, target: str, lang: str, limits: str = "") -> None:
    """Read documents, run all steps, write what is left; print the number of documents after each step."""
    logger.remove()
    lines = Path(source).read_text(encoding="utf-8").splitlines()
    docs = [Document(text=json.loads(line)["text"], id=str(i)) for i, line in enumerate(lines)]
    counts = [("in", len(docs))]
    docs = without_duplicates(docs, lang)
    counts.append(("MinHash", len(docs)))
    for step in filters(lang, yaml.safe_load(Path(limits).read_text(encoding="utf-8")) if limits else {}):
        docs = list(step.run(iter(docs), 0, 1))
        counts.append((type(step).__name__, len(docs)))
    with Path(target).open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": doc.text}, ensure_ascii=False) + "\n" for doc in docs)
    print(json.dumps(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
