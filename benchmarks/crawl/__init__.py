"""Parts of ``benchmarks/corpora.py``: a synthetic crawl, CCNet's order of operations, datatrove's stages."""

import os

# The benchmark is bound to one core. Read when polars and torch are imported, which is after this.
for _name in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS", "RAYON_NUM_THREADS"):
    os.environ[_name] = "1"
