"""Export of a static encoder with the code that computes it, for programs without xling, and its import.

No class of transformers hashes the n-grams of words, so the directory carries copies of the files that do.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Sequence
from dataclasses import asdict, fields
from importlib import resources
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.source_version import full_version
from xling.hub import card, configs, source
from xling.hub.settings import ExportConfig, ImportConfig
from xling.static import encoder_files
from xling.static.shape import StaticConfig
from xling.text.words import han

MODULE_NAME, CONFIG_CLASS = "modeling_static", "StaticEncoderConfig"
MODEL_CLASS, SENTENCES_CLASS = "StaticEncoderModel", "StaticSentences"
COPIED_FILES = (
    "static/modeling_static.py", "static/matching.py", "static/vectors.py", "text/words/features.py",
    "text/words/romanise.py",
)  # fmt: skip
"""Files that are copied; `xling.text.words.han` becomes one without OpenCC."""
_HAN_TEMPLATE = '''"""Chinese characters in one form. The table is made from that of OpenCC (Apache licence 2.0)."""

_TABLE = str.maketrans(
    {old},
    {new},
)


def simplify(text: str) -> str:
    """Return a text with every Chinese character in its simplified form."""
    return text if text.isascii() else text.translate(_TABLE)
'''
_COPIED_NOTE = """

# Versions of transformers before 5 copy only the files that this one names.
from .han import simplify
from .romanise import romanise
"""
_USAGE = """```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("DIR", trust_remote_code=True)  # runs the Python files of this directory
vectors = model.encode(["Habari ya asubuhi.", "Good morning."])
```

```python
from transformers import AutoModel

model = AutoModel.from_pretrained("DIR", trust_remote_code=True)
vectors = model(["Habari ya asubuhi."])  # sentences, of length 1
words = model.words(["habari", "news"])  # words
scores = model.matches(["Habari ya asubuhi."], ["Good morning.", "Thank you."])  # word by word, to rank candidates
```

Before you compare texts of two languages, subtract from the vectors of each language their mean, and scale them to
length 1 again: the mean tells the language more than what is said."""
_LIMITATIONS = (
    "A word has one vector, whatever its sentence. The order of words does not count.",
    "Words and sentences of languages that are not listed have vectors too, by their spelling alone.",
    "The classes compute on the CPU and are not trained further there.",
    "Licences are those of the texts that it was trained on; they are not known here. The code has the MIT licence.",
)


def write_export(cfg: ExportConfig, out: Path) -> dict[str, Any]:
    """Write a static encoder, its code and its card into a directory, and return counts.

    Raises:
        UserError: the encoder is damaged or of another version, or a file of ``cfg.scores`` contains no scores.
    """
    encoder = encoder_files.load_encoder(cfg.checkpoint)
    tensors = load_file(cfg.checkpoint / encoder_files.WEIGHTS_FILE)
    tensors.setdefault("weight_direction", encoder.weight_direction)
    save_file(tensors, out / source.SAFETENSORS_FILE, metadata={"format": "pt"})
    settings = _config(encoder.cfg, len(encoder.share)) | {"int8": "scale" in tensors}
    configs.write_json(out / "config.json", settings)
    configs.write_json(
        out / "modules.json",
        [{"idx": 0, "name": "0", "path": "", "type": f"{MODULE_NAME}.{SENTENCES_CLASS}"}],
    )
    copy_code(out, COPIED_FILES)
    text = card.compose_card(cfg.checkpoint, _describe_shape(settings), _USAGE, _LIMITATIONS, cfg.scores)
    (out / "README.md").write_text(text, encoding="utf-8")
    return {"class": MODEL_CLASS, "parameters": encoder.table.numel()}


def copy_code(out: Path, names: Sequence[str]) -> None:
    """Copy modules of xling, the one with the classes first, and `xling.text.words.han` with its table."""
    for name in names:
        code = resources.files("xling").joinpath(name).read_text(encoding="utf-8")
        note = _COPIED_NOTE if name == names[0] else ""
        (out / Path(name).name).write_text(to_portable_code(code) + note, encoding="utf-8")
    characters = repr("".join(map(chr, han.simplified_table())))
    simplified = repr("".join(han.simplified_table().values()))
    (out / "han.py").write_text(
        _origin_comment() + _HAN_TEMPLATE.format(old=characters, new=simplified), encoding="utf-8"
    )


def import_static(cfg: ImportConfig, model: source.ModelSource) -> manifest.Manifest:
    """Import an exported static encoder as `xling pretrain static` publishes one. Its code is not run.

    Raises:
        UserError: the files are damaged or of another version, or ``extend_vocab`` is given.
    """
    if cfg.extend_vocab:
        raise UserError(
            f"extend_vocab={cfg.extend_vocab} is given, and {cfg.source} is a static encoder, which has no pieces",
            "no extend_vocab=",
            "leave extend_vocab out",
        )
    langs = [languages.get(lang).code for lang in cfg.langs]
    if published := manifest.up_to_date(cfg.out, "import hf", cfg, [model.folder]):
        return published
    with manifest.publish(cfg.out, "import hf", cfg, [model.folder]) as publication:
        shutil.copyfile(model.folder / source.SAFETENSORS_FILE, publication.path / encoder_files.WEIGHTS_FILE)
        settings = {f.name: model.config[f.name] for f in fields(StaticConfig) if f.name in model.config}
        configs.write_json(publication.path / encoder_files.CONFIG_FILE, settings)
        publication.counts["langs"] = langs
        encoder_files.load_encoder(publication.path)
    return manifest.read(cfg.out)


def to_portable_code(code: str) -> str:
    """Return the code of a module of xling for a directory that has copies of the modules it imports.

    Imports from xling become imports from the same directory. Blocks for type checkers and types of arrays are left
    out, since transformers asks for every package that a file names.
    """
    lines = code.splitlines(keepends=True)
    for node in ast.parse(code).body:
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if isinstance(node, ast.ImportFrom) and node.module == "xling.array_types":
            lines[node.lineno - 1] = ""
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("xling."):
            package = node.module.rpartition(".")[2]
            lines[node.lineno - 1] = lines[node.lineno - 1].replace(node.module, f".{package}", 1)
        elif is_for_types:
            for number in range(node.lineno - 1, (node.end_lineno or node.lineno) + 1):
                lines[number] = ""
    return _origin_comment() + "".join(lines).replace("from typing import TYPE_CHECKING\n", "")


def _origin_comment() -> str:
    return f"# From xling {full_version()}, MIT licence.\n"


def _config(shape: Any, num_frequent: int) -> dict[str, Any]:
    return {
        "architectures": [MODEL_CLASS],
        "auto_map": {
            "AutoConfig": f"{MODULE_NAME}.{CONFIG_CLASS}",
            "AutoModel": f"{MODULE_NAME}.{MODEL_CLASS}",
        },
        "model_type": source.STATIC_TYPE,
        **asdict(shape),
        "num_frequent": num_frequent,
        "dtype": "float32",  # of the numbers it computes with; those of the file are float16
        "torch_dtype": "float32",
    }


def _describe_shape(settings: dict[str, Any]) -> str:
    return (
        f"A static encoder of words and sentences, class `{MODEL_CLASS}`, whose code is in this "
        "directory: a word is the "
        "mean of the vectors of its hashed n-grams, a sentence the weighted sum of its words. It has "
        f"{1 << settings['bits']:,} vectors of {settings['dim']} numbers. A random projection of the spelling to "
        f"{settings['sketch']} numbers is appended to the vector of a sentence."
    )
