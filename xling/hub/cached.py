"""Resolution of ``checkpoint=hf:NAME_OR_FOLDER``: a model of transformers, imported into a cache on first use."""

import hashlib
from pathlib import Path

from xling.core.output import digests, manifest
from xling.core.output.command_result import tell
from xling.hub.settings import ImportConfig
from xling.hub.source import locate_model, read_optional_json, run_hf, tell_head

HF_PREFIX = "hf:"
IMPORTER = 5
"""Version of what an import writes: with a new one every model is imported again."""


def cached_checkpoint(name: str) -> Path:
    """Return the checkpoint made from ``hf:NAME_OR_FOLDER``, importing it if necessary.

    It is stored in the folder that XLING_CACHE names, else in ~/.cache/xling, under the digest of its source: of all
    files in the folder as they are now.

    Raises:
        UserError: as `xling.hub.source.find_and_check`.
    """
    folder = locate_model(Path(name.removeprefix(HF_PREFIX)), allow_pickle=False)
    key = hashlib.sha256(f"{IMPORTER} {manifest.content_digest(folder)}".encode()).hexdigest()[:32]
    out = digests.cache_folder() / "hf" / key
    if not manifest.is_as_published(out):
        tell(f"xling: {name} is imported into {out}")
        run_hf(ImportConfig(folder, out))
    else:
        tell_head(folder, read_optional_json(folder / "config.json"))
    return out
