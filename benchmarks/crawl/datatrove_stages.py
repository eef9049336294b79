"""Time datatrove's stages on a WET file; run by ``benchmarks/corpora.py`` in an environment of its own.

Language identification is left out: datatrove would download its model. Prints Markdown rows.
"""

import os
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"

from datatrove.data import Document
from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)
from datatrove.pipeline.formatters import FTFYFormatter, PIIFormatter
from datatrove.pipeline.readers import WarcReader
from loguru import logger

MAX_MB = 2.0


def main(path: str, folder: str) -> None:
    """Read ``path``, then run each stage on fresh copies of the documents."""
    logger.remove()
    folder, _, name = path.rpartition("/")
    start = time.process_time()
    docs = list(WarcReader(folder, glob_pattern=name, compression="gzip").run())
    seconds = time.process_time() - start
    size = sum(len(doc.text.encode()) for doc in docs) / 1e6
    print(f"| datatrove step ({len(docs):,} documents) | MB in | CPU s | MB/s |\n|---|---:|---:|---:|")
    print(f"| WarcReader | {size:.1f} | {seconds:.2f} | {size / seconds:.1f} |")
    docs = docs[: int(len(docs) * MAX_MB / size) + 1]  # its word tokeniser takes a minute for ten megabytes
    size = sum(len(doc.text.encode()) for doc in docs) / 1e6
    stages = {
        "FTFYFormatter": FTFYFormatter(),
        "GopherQualityFilter": GopherQualityFilter(),
        "GopherRepetitionFilter": GopherRepetitionFilter(),
        "C4QualityFilter": C4QualityFilter(),
        "FineWebQualityFilter": FineWebQualityFilter(),
        "PIIFormatter": PIIFormatter(),
        "MinhashDedupSignature (14 x 8)": MinhashDedupSignature(
            folder + "/signatures", MinhashConfig(num_buckets=14, hashes_per_bucket=8)
        ),
    }
    for stage, step in stages.items():
        copies = [Document(text=doc.text, id=doc.id, metadata=dict(doc.metadata)) for doc in docs]
        try:
            start = time.process_time()
            for _ in step.run(iter(copies), 0, 1) or ():
                pass
            seconds = time.process_time() - start
            print(f"| {stage} | {size:.1f} | {seconds:.2f} | {size / seconds:.1f} |")
        except Exception as error:  # a stage that needs a download or an extra package is named, not hidden
            print(f"| {stage} | {size:.1f} | not run: {type(error).__name__}: {str(error)[:80]} | |")


if __name__ == "__main__":
    main(*sys.argv[1:])
