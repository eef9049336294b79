"""Export of an encoder to ONNX, which other programs run without torch: ``xling export onnx``.

The model is converted for `transformers` first; torch's exporter reads it there. The graph takes any number of
texts of any length. It is run with onnxruntime on several sizes before it is published.
"""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from xling.array_types import Float, Int
from xling.core.commands.inputs import require
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.hub import export, features_export
from xling.hub.settings import ExportConfig

ONNX_FOLDER, GRAPH_FILE = "onnx", "model.onnx"
STATE_OUTPUTS, SCORE_OUTPUTS = ("last_hidden_state",), ("logits",)
OUTPUTS_OF_CLASS = {
    "ForMaskedLM": STATE_OUTPUTS,
    "ForSequenceClassification": SCORE_OUTPUTS,
    "ForTokenClassification": SCORE_OUTPUTS,
    "ForQuestionAnswering": ("start_logits", "end_logits"),
}
"""Outputs by the end of the class's name; a masked language model is exported without its head."""
MAX_DIFFERENCE = 1e-4  # difference from torch at which an export is refused
MAX_PARAMETERS_IN_ONE_FILE = 450_000_000  # parameters; a protocol buffer holds at most 2 GB
_USAGE = """```python
import onnxruntime
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("DIR")
session = onnxruntime.InferenceSession("DIR/{file}")
batch = tokenizer(["a text", "another one"], padding=True, return_tensors="np")
result = session.run({outputs}, {{each.name: batch[each.name] for each in session.get_inputs()}})
```"""


class NamedOutputs(nn.Module):
    """The named outputs of a model of transformers, from inputs by position."""

    model: Any  # nn.Module would hide what transformers' classes have besides

    def __init__(self, model: nn.Module, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names, self.outputs = model, inputs, outputs

    def forward(self, *inputs: Int[Tensor, "texts tokens"]) -> tuple[Float[Tensor, " texts *rest"], ...]:
        """Compute the outputs; the first input holds ids, the second is 0 at padding."""
        result = self.model(**dict(zip(self.names, inputs, strict=True)))
        return tuple(result[name] for name in self.outputs)


def run(cfg: ExportConfig) -> manifest.Manifest:
    """Export an encoder, pre-trained or fine-tuned, as ``onnx/model.onnx`` with its tokenizer and its card.

    Raises:
        UserError: a package is missing, transformers' classes cannot express the model, it has a decoder or
            chooses among alternatives, or the graph does not compute what the model does.
    """
    require("onnx", "xling export onnx")
    inputs = [cfg.checkpoint, *cfg.scores]
    if published := manifest.up_to_date(cfg.out, "export onnx", cfg, inputs):
        return published
    write_hf_export = export.make_converter(cfg, _usage_example)
    with manifest.publish(cfg.out, "export onnx", cfg, inputs) as publication:
        counts = write_hf_export(publication.path)
        graph = _load_graph(publication.path, counts["class"])
        (publication.path / ONNX_FOLDER).mkdir()
        path = publication.path / ONNX_FOLDER / GRAPH_FILE
        write_graph(graph, path, large=counts["parameters"] > MAX_PARAMETERS_IN_ONE_FILE)
        counts["largest_difference"] = _check_graph(graph, path, cfg.checkpoint)
        (publication.path / export.WEIGHTS_FILE).unlink()
        publication.counts |= counts | {"inputs": list(graph.names), "outputs": list(graph.outputs)}
    return manifest.read(cfg.out)


def output_names(name: str) -> tuple[str, ...]:
    """Return the outputs of a class of transformers.

    Raises:
        UserError: it is not an encoder of single texts or pairs.
    """
    if name.startswith(features_export.PREFIX):
        raise UserError(
            "export onnx of a model with model.features",
            "a model without them: no graph looks up words",
            "export hf it; programs load its code with trust_remote_code=True",
        )
    matching = [outputs for end, outputs in OUTPUTS_OF_CLASS.items() if name.endswith(end)]
    if not matching:
        raise UserError(
            f"export onnx of a model that becomes a {name}",
            "an encoder, or a classifier of texts, pairs, words or spans",
            "export hf it",
        )
    return matching[0]


def _usage_example(name: str) -> str:
    return _USAGE.format(file=f"{ONNX_FOLDER}/{GRAPH_FILE}", outputs=list(output_names(name)))


def _load_graph(folder: Path, name: str) -> NamedOutputs:
    import transformers

    transformers.utils.logging.disable_progress_bar()
    outputs = output_names(name)
    loader = transformers.AutoModel if outputs == STATE_OUTPUTS else getattr(transformers, name)
    model = loader.from_pretrained(folder, local_files_only=True)
    has_segments = int(getattr(model.config, "type_vocab_size", 1) or 1) > 1
    inputs = ("input_ids", "attention_mask", *(("token_type_ids",) if has_segments else ()))
    return NamedOutputs(model, inputs, outputs).eval()


def write_graph(graph: NamedOutputs, path: Path, large: bool = False) -> None:
    """Write the ONNX file of a graph.

    Args:
        graph: in evaluation mode.
        path: the file.
        large: put the weights into a second file, ``model.onnx.data``.
    """
    dynamic_axes = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens")}
    onnx_logger = logging.getLogger("torch.onnx")
    old_level = onnx_logger.level
    onnx_logger.setLevel(logging.ERROR)  # it warns of packages that no text model needs
    try:
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                graph,
                _random_inputs(graph, 2, 7),
                path,
                input_names=list(graph.names),
                output_names=list(graph.outputs),
                dynamic_shapes=(tuple(dynamic_axes for _ in graph.names),),
                dynamo=True,
                external_data=large,
                verbose=False,
            )
    finally:
        onnx_logger.setLevel(old_level)


def _random_inputs(
    graph: NamedOutputs, texts: int, tokens: int
) -> tuple[Int[Tensor, "{texts} {tokens}"], ...]:
    """Make inputs of random ids, the second half of every other text padding."""
    num_rows = graph.model.get_input_embeddings().weight.shape[0]
    generator = torch.Generator().manual_seed(texts * 1000 + tokens)
    ids = torch.randint(4, num_rows - 1, (texts, tokens), generator=generator)
    attention_mask = torch.ones_like(ids)
    attention_mask[1::2, (tokens + 1) // 2 :] = 0
    pad = int(graph.model.config.pad_token_id)
    ids[attention_mask == 0] = pad
    segments = torch.zeros_like(ids)
    segments[:, tokens // 2 :] = 1
    return (ids, attention_mask, segments)[: len(graph.names)]


def _check_graph(graph: NamedOutputs, path: Path, model_name: Path) -> float:
    """Return the largest difference between the file, run with onnxruntime, and torch, at real tokens.

    Raises:
        UserError: it is larger than `MAX_DIFFERENCE`.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    largest_difference = 0.0
    for texts, tokens in ((1, 3), (2, 7), (3, 40)):
        example = _random_inputs(graph, texts, tokens)
        with torch.inference_mode():
            expected = graph(*example)
        inputs = {name: each.numpy() for name, each in zip(graph.names, example, strict=True)}
        is_real = inputs["attention_mask"] == 1
        for theirs, ours in zip(session.run(list(graph.outputs), inputs), expected, strict=True):
            difference = np.abs(theirs - ours.numpy())
            by_token = difference.ndim == 3 or graph.outputs not in (STATE_OUTPUTS, SCORE_OUTPUTS)
            largest_difference = max(
                largest_difference, float((difference[is_real] if by_token else difference).max())
            )
    if not largest_difference <= MAX_DIFFERENCE:
        raise UserError(
            f"export onnx of {model_name}: the graph differs by {largest_difference:.2g} from the model",
            f"at most {MAX_DIFFERENCE:g}",
            "export hf it, and report the versions of torch and onnxruntime",
        )
    return largest_difference
