"""An exported graph gives the numbers of the model, for any number of texts of any length."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hub import test_mbart
from tests.hub.differences import largest
from tests.hub.test_vectors_out import LINES, SHAPES, publish
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.hub import onnx
from xling.hub.settings import ExportConfig
from xling.transfer.backend import EncoderBackend

MISSING = ("onnx", "onnxscript", "onnxruntime")


def outputs(out: Path, *texts: list[str]) -> list[Any]:
    """What onnxruntime computes from the files of an export alone, as its card says."""
    import onnxruntime
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(out)
    session = onnxruntime.InferenceSession(out / "onnx" / "model.onnx")
    batch = tokenizer(*texts, padding=True, return_tensors="np")
    return [batch, *session.run(None, {each.name: batch[each.name] for each in session.get_inputs()})]


@pytest.mark.slow
def test_states_are_ours(vocab: Path, tmp_path: Path) -> None:
    folder = publish(tmp_path / "m", vocab, **SHAPES["modernbert"])  # the classifier has the shape of XLM-R
    record = onnx.run(ExportConfig(folder, tmp_path / "out"))
    assert record.counts["outputs"] == ["last_hidden_state"] and record.counts["largest_difference"] <= 1e-5
    assert not (tmp_path / "out" / "model.safetensors").exists()
    batch, states = outputs(tmp_path / "out", list(LINES[:5]))
    seen = batch["attention_mask"].astype(bool)
    mine = EncoderBackend(folder, "pretrained", precision="fp32").embed(LINES[:5], "en", -1, "mean")
    for row, line in enumerate(LINES[:5]):
        mean = states[row][seen[row]][1:-1].mean(0)
        assert np.abs(mine[row]).max() > 0.1 and largest(mean, mine[row]) <= 1e-4, line
    assert "onnxruntime.InferenceSession" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.slow
def test_scores_of_a_classifier_are_ours(task: Any, tmp_path: Path) -> None:
    from xling.data.packing import pack

    tuned, folder, rows = task("classify")
    onnx.run(ExportConfig(folder, tmp_path / "out"))
    _, scores = outputs(tmp_path / "out", [row.fields["text"] for row in rows])
    for row, example in tuned.encode(rows):
        wanted = tuned.model.eval()(pack([example])).detach().numpy()[0]
        assert np.abs(scores[row] - wanted).max() <= 1e-4
    assert len({tuple(each) for each in scores.round(4).tolist()}) == len(rows)


def test_a_graph_that_differs_is_not_published(
    vocab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(graph: Any, path: Path, large: bool = False) -> None:
        import onnx as package
        from onnx import TensorProto, helper

        given = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "t"]) for n in graph.names]
        made = helper.make_tensor_value_info(graph.outputs[0], TensorProto.FLOAT, ["b", "t", 32])
        zeros = [
            helper.make_node("Cast", [graph.names[0]], ["c"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["c", "axis"], ["u"]),
            helper.make_node("Expand", ["u", "size"], [graph.outputs[0]]),
        ]
        constants = [helper.make_tensor("axis", TensorProto.INT64, [1], [2])]
        constants.append(helper.make_tensor("size", TensorProto.INT64, [3], [1, 1, 32]))
        built = helper.make_graph(zeros, "other", given, [made], constants)
        model = helper.make_model(built, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        package.save(model, path)

    monkeypatch.setattr(onnx, "write_graph", other)
    with pytest.raises(UserError, match=r"the graph differs by .* from the model; valid: at most 0.0001"):
        onnx.run(ExportConfig(publish(tmp_path / "m", vocab), tmp_path / "out"))
    assert not (tmp_path / "out" / manifest.FILE_NAME).exists()


def test_a_decoder_is_refused_before_anything_is_written(vocab: Path, tmp_path: Path) -> None:
    folder = test_mbart.publish(tmp_path / "m", vocab)
    with pytest.raises(UserError, match=r"becomes a \w+ForConditionalGeneration; valid: an encoder, or"):
        onnx.run(ExportConfig(folder, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("package", MISSING)
def test_a_missing_package_is_named_with_its_extra(
    vocab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"{package} is not installed.*pip install 'xling\[onnx\]'"):
        onnx.run(ExportConfig(publish(tmp_path / "m", vocab), tmp_path / "out"))
