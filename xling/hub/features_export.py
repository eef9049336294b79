"""Export of an encoder with ``model.features``: XLM-R's classes with the static encoder and the code that reads it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from xling.array_types import Shaped
from xling.hub import layouts, static_export
from xling.static import encoder_files

MODULE_NAME, MODEL_TYPE, PREFIX = "modeling_features", "xling_features", "Features"
COPIED_FILES = (
    f"hub/{MODULE_NAME}.py", "static/known_words.py", "text/words/of_pieces.py", "static/vectors.py",
    "text/words/features.py", "text/words/romanise.py",
)  # fmt: skip
AUTO_CLASSES = ("", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering",
                "ForMultipleChoice")  # fmt: skip

USAGE = """```python
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("DIR")
model = AutoModel.from_pretrained("DIR", trust_remote_code=True)  # runs the Python files of this directory
```

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("DIR", trust_remote_code=True)
vectors = model.encode(["Habari ya asubuhi.", "Good morning."])
```"""


def add_features(
    folder: Path,
    state: dict[str, Shaped[Tensor, " ..."]],
    settings: dict[str, Any],
    weights: dict[str, Shaped[Tensor, " ..."]],
) -> None:
    """Make config.json and weights of XLM-R those of an encoder with features, in place.

    Args:
        folder: the static encoder.
        state: weights of the model by our names.
        settings: config.json.
        weights: weights by the names of transformers.

    Raises:
        UserError: the static encoder is missing or damaged.
    """
    static = replace(encoder_files.read_shape(folder), sketch=0)
    tensors = load_file(folder / encoder_files.WEIGHTS_FILE)
    prefix = f"{layouts.XLMR.tokens}."
    own = {name: state[f"encoder.tokens.{name}"] for name in ("names", "is_known")}
    scale = tensors.get("scale", torch.ones(len(tensors["table"])))
    own |= {"table": tensors["table"], "scale": scale.view(-1, 1)}
    weights.update({prefix + name: tensor.contiguous() for name, tensor in own.items()})
    settings |= {
        "architectures": [name.replace("XLMRoberta", PREFIX) for name in settings["architectures"]],
        "model_type": MODEL_TYPE,
        "auto_map": {"AutoConfig": f"{MODULE_NAME}.{PREFIX}Config"}
        | {f"AutoModel{end}": f"{MODULE_NAME}.{PREFIX}{end or 'Model'}" for end in AUTO_CLASSES},
        "static": asdict(static),
        "name_bytes": own["names"].shape[1],
        "int8": "scale" in tensors,
    }


def write_code(out: Path) -> None:
    """Copy the code of the classes into an export."""
    static_export.copy_code(out, COPIED_FILES)
