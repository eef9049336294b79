"""Parts of ``benchmarks/corpora.py``: a synthetic crawl, CCNet's order of operations, datatrove's stages."""
