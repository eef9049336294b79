"""Resolution of ``checkpoint=hf:NAME_OR_FOLDER``: a model of transformers, imported into a cache on first use."""

from __future__ import annotations

import os
from pathlib import Path

from xling.core.output import manifest
from xling.core.output.command_result import tell
from xling.hub.settings import ImportConfig
from xling.hub.source import locate_model, run_hf

HF_PREFIX, CACHE_VARIABLE = "hf:", "XLING_CACHE"


def cached_checkpoint(name: str) -> Path:
    """Return the checkpoint made from ``hf:NAME_OR_FOLDER``, importing it if necessary.

    It is stored in the folder that XLING_CACHE names, else in ~/.cache/xling, under the digest of its source.

    Raises:
        UserError: as `xling.hub.source.find_and_check`.
    """
    folder = locate_model(Path(name.removeprefix(HF_PREFIX)), allow_pickle=False)
    cache_folder = Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "xling")
    out = cache_folder / "hf" / manifest.content_digest(folder)[:32]
    if not (out / manifest.FILE_NAME).is_file():
        tell(f"xling: {name} is imported into {out}")
        run_hf(ImportConfig(folder, out))
    return out
