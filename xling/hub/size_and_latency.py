"""``xling measure``: the size of encoders, and how long they take for one text on one core.

A text is what a user sends: one line at a time, cut into pieces beforehand, one thread, no gradient. All models read
the same lines by turns, so that other work on the machine slows all of them. The latency of a line is the least of its
rounds; of a model the median, the 5th and the 95th percentile over the lines. Size: megabytes of the encoder's
parameters and buffers as they are computed with; the classifier on top is left out, and so is the LM head.
"""

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xling.core.output import manifest
from xling.core.progress import Progress
from xling.data.packing import pack, sequence
from xling.hub import checks
from xling.hub.settings import MeasureConfig
from xling.models.files import model_weights
from xling.models.files.model_folder import TASK_FILE
from xling.models.network.int8 import num_bytes, quantise
from xling.text import vocab
from xling.text.files import corpus_reader
from xling.transfer import tune
from xling.transfer.encode import BOS, EOS, encode_pieces

STAGE, FILE_NAME = "measure", "measured.json"


@dataclass(frozen=True)
class ModelMeasurement:
    """Size and latency of one model: megabytes, layers, pieces, and milliseconds a line (median, 5 %, 95 %)."""

    name: str
    megabytes: float
    layers: int
    vocabulary: int
    ms: float
    low: float
    high: float


def run(cfg: MeasureConfig) -> manifest.Manifest:
    """Measure all models and publish the numbers.

    Raises:
        UserError: as `xling.hub.checks.check_measure`.
    """
    checks.check_measure(cfg)
    given = [(item, small) for small, items in enumerate((cfg.checkpoints, cfg.int8)) for item in items]
    named_items = [(item.rpartition("="), bool(small)) for item, small in given]
    folder_of_model = {
        name or Path(folder).name: (Path(folder), small) for (name, _, folder), small in named_items
    }
    text_files = corpus_reader.resolve_files(cfg.text)
    inputs = [*dict.fromkeys(folder for folder, _ in folder_of_model.values()), *text_files]
    settings = replace(cfg, out=Path())
    if published := manifest.up_to_date(cfg.out, STAGE, settings, inputs):
        return published
    lines = [line for document in corpus_reader.read_documents(cfg.text) for line in document][: cfg.lines]
    models = {name: _load_encoder(folder, small, lines) for name, (folder, small) in folder_of_model.items()}
    line_ms = _measure_times([(encoder, samples) for encoder, _, samples in models.values()], cfg.rounds)
    measurements = [
        ModelMeasurement(
            name,
            num_bytes(encoder) / 1e6,
            len(encoder.layers),
            vocabulary,
            *np.percentile(least, [50, 5, 95]).tolist(),
        )
        for (name, (encoder, vocabulary, _)), least in zip(models.items(), line_ms, strict=True)
    ]
    with manifest.publish(cfg.out, STAGE, settings, inputs) as publication:
        rows = {"lose": cfg.lose, "models": [asdict(model) for model in measurements]}
        (publication.path / FILE_NAME).write_text(json.dumps(rows, indent=1), encoding="utf-8")
        publication.counts |= {
            model.name: f"{model.megabytes:.2f} MB, {model.ms:.2f} ms a line" for model in measurements
        }
    return manifest.read(cfg.out)


def _load_encoder(folder: Path, in_int8: bool, lines: list[str]) -> tuple[Any, int, list[dict[str, Any]]]:
    """Return the encoder, fine-tuned or not, the rows of its embeddings, and a batch of one for each line."""
    is_task = (folder / TASK_FILE).is_file()
    encoder: Any = (
        tune.load_tuned(folder).model.encoder if is_task else model_weights.load_model(folder)[0].encoder
    )
    vocabulary = encoder.tokens.num_embeddings
    encoder = quantise(encoder) if in_int8 else encoder.float().eval()
    processor, max_positions = vocab.load_processor(folder), encoder.cfg.max_positions
    rows = [[BOS, *encode_pieces(processor, line)[: max_positions - 2], EOS] for line in lines]
    return encoder, vocabulary, [pack([sequence(row, 0, id=np.array([i]))]) for i, row in enumerate(rows)]


def _measure_times(models: list[tuple[Any, list[dict[str, Any]]]], rounds: int) -> np.ndarray:
    """Return the least milliseconds of each model for each line, float64 (models, lines)."""
    least_ms = np.full((len(models), len(models[0][1])), np.inf)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode(), Progress("measure", rounds * least_ms.shape[1], "lines") as progress:
            for _ in range(rounds):
                for line in range(least_ms.shape[1]):
                    for number, (encoder, samples) in enumerate(models):
                        start = time.perf_counter()
                        encoder(**samples[line]["net_input"])
                        elapsed_ms = 1000 * (time.perf_counter() - start)
                        least_ms[number, line] = min(least_ms[number, line], elapsed_ms)
                    progress.update(1)
    finally:
        torch.set_num_threads(num_threads)
    return least_ms
