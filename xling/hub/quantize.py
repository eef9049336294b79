"""Model files of a quarter of the size, matrices in 8-bit integers with a scale per row: ``xling quantize``.

Every command reads such a file like any other: the weights become rounded float32. ``xling eval
int8=true`` computes with the same integers; see `xling.models.network.int8`.
"""

import torch

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.hub.checks import check_no_static_head
from xling.hub.settings import QuantizeConfig
from xling.models.files import model_weights
from xling.models.files.model_folder import INT8, TASK, TASK_FILE, tag_marks
from xling.models.network.int8 import round_to_int8
from xling.static.encoder_files import WEIGHTS_FILE, is_static_encoder, quantize_encoder
from xling.text import vocab
from xling.transfer import sentence

STAGE = "quantize"


def run(cfg: QuantizeConfig) -> manifest.Manifest:
    """Quantise the matrices and publish the smaller file.

    Raises:
        UserError: the checkpoint does not exist, is already in 8 bits, or a fine-tuned static encoder.
    """
    if published := manifest.up_to_date(cfg.out, STAGE, cfg, [cfg.checkpoint]):
        return published
    check_no_static_head(cfg.checkpoint)
    if is_static_encoder(cfg.checkpoint):
        with manifest.publish(cfg.out, STAGE, cfg, [cfg.checkpoint]) as publication:
            quantize_encoder(cfg.checkpoint, publication.path)
            sizes = [(folder / WEIGHTS_FILE).stat().st_size for folder in (cfg.checkpoint, publication.path)]
            publication.counts |= {"bytes_before": sizes[0], "bytes": sizes[1]}
        return manifest.read(cfg.out)
    is_task = (cfg.checkpoint / TASK_FILE).is_file()
    path = cfg.checkpoint / (TASK_FILE if is_task else "model.pt")
    state = model_weights.read_published(path, TASK, *model_weights.SHAPES)
    if INT8 in state:
        raise UserError(f"{cfg.checkpoint} is in 8 bits already", "a checkpoint in float32")
    matrices = {
        name: round_to_int8(weight)
        for name, weight in state["weights"].items()
        if weight.dim() == 2
        and weight.is_floating_point()  # not the spelling of the pieces of `model.features`
    }
    state["weights"] = {name: weight for name, weight in state["weights"].items() if name not in matrices}
    with manifest.publish(cfg.out, STAGE, cfg, [cfg.checkpoint]) as publication:
        torch.save(state | {INT8: matrices}, publication.path / path.name)
        vocab.copy_vocabulary(cfg.checkpoint, publication.path)
        sentence.copy_head(cfg.checkpoint, publication.path)
        sizes = [file.stat().st_size for file in (path, publication.path / path.name)]
        publication.counts |= tag_marks(cfg.checkpoint)
        publication.counts |= {"langs": state["langs"], "bytes_before": sizes[0], "bytes": sizes[1]}
    return manifest.read(cfg.out)
