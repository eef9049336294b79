"""An exported encoder with ``model.features`` computes our states without xling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests import forked
from tests.hub.differences import largest
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.data.packing import pack, sequence
from xling.hub import checks, quantize
from xling.hub.export import run_fairseq, run_hf
from xling.hub.settings import ExportConfig, QuantizeConfig, TrimConfig
from xling.models.files import model_weights
from xling.static import encoder_files
from xling.static.shape import StaticConfig
from xling.text import vocab
from xling.training.settings import PretrainConfig
from xling.training.train import run as pretrain
from xling.transfer.words import CheckpointEncoder

TEXTS = ["The old woman sees a red boat near the river.", "المرأة العجوز ترى قاربا", "two houses", "หญิงชรา"]
LOAD = """
import sys
for name in ("xling", "opencc", "jaxtyping"):
    sys.modules[name] = None  # an import of it is an error
import json, numpy as np, torch
folder, again, out = sys.argv[1:4]
texts = json.loads(sys.argv[4])
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(folder)
inputs = tokenizer(texts, padding=True, return_tensors="pt")
model = AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
head = AutoModelForMaskedLM.from_pretrained(folder, trust_remote_code=True).eval()
from sentence_transformers import SentenceTransformer
sentences = SentenceTransformer(folder, trust_remote_code=True, device="cpu")
sentences.save(again)
saved = SentenceTransformer(again, trust_remote_code=True, device="cpu")
with torch.no_grad():
    states = model(**inputs).last_hidden_state
    logits = head(**inputs).logits
np.savez(out, ids=inputs.input_ids, mask=inputs.attention_mask, states=states, logits=logits,
         encoded=sentences.encode(texts), saved=saved.encode(texts))
"""


@pytest.fixture(scope="module", params=["float16", "int8"])
def taught(
    request: Any, shards: Path, model: Path, tiny: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("features")
    with manifest.publish(folder / "whole", "pretrain static", {}, []) as made:
        encoder = encoder_files.random_encoder(StaticConfig(dim=24, bits=12, sketch=8), {}, 1)
        encoder_files.save_encoder(encoder, made.path)
    static = folder / "whole"
    if request.param == "int8":
        static = folder / "static"
        with manifest.publish(static, "quantize", {}, []) as made:
            encoder_files.quantize_encoder(folder / "whole", made.path)
    words = [*tiny, f"data={shards}", f"out={folder / 'model'}", f"init={model}", f"model.features={static}"]
    words += [f"freeze_pieces={model}", "train.weight_decay=0", "train.updates=2"]
    pretrain(config.load(PretrainConfig, overrides=words))
    return folder / "model"


@pytest.mark.slow
def test_programs_without_xling_compute_our_states(taught: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run_hf(ExportConfig(taught, out)).counts["class"] == "FeaturesForMaskedLM"
    words = ["-c", LOAD, str(out), str(tmp_path / "again"), str(tmp_path / "made.npz"), json.dumps(TEXTS)]
    environment = {"HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = forked.run(*words, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "made.npz") as file:
        made = dict(file)
    net = model_weights.load_model(taught)[0].eval()
    processor = vocab.load_processor(taught)
    for row, text in enumerate(TEXTS):
        ids = [0, *(piece + 1 if piece else 3 for piece in processor.encode([text])[0]), 2]
        length = int(made["mask"][row].sum())
        assert made["ids"][row, :length].tolist() == ids
        inputs = pack([sequence(ids, 0, id=np.array([0]))])["net_input"]
        inputs.pop("langs")
        with torch.no_grad():
            states = net.encoder(**inputs)
            logits = net.lm_head.logits(states)
        assert largest(torch.from_numpy(made["states"][row, :length]), states) < 1e-4
        assert largest(torch.from_numpy(made["logits"][row, :length]), logits) < 1e-4
    ours = CheckpointEncoder(taught).embed(TEXTS, "en", -1, "mean")
    for name in ("encoded", "saved"):
        assert np.abs(made[name] - ours).max() < 1e-4, name


@pytest.mark.parametrize("taught", ["float16"], indirect=True)
def test_the_card_says_how_to_load_it(taught: Path, tmp_path: Path) -> None:
    run_hf(ExportConfig(taught, tmp_path / "out"))
    text = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    assert 'AutoModel.from_pretrained("DIR", trust_remote_code=True)' in text


@pytest.mark.parametrize("taught", ["float16"], indirect=True)
def test_formats_without_code_refuse_it(taught: Path, tmp_path: Path) -> None:
    text = tmp_path / "en.txt"
    text.write_text("The old woman sees a boat.\n" * 3)
    with pytest.raises(UserError, match=r"model\.features="):
        run_fairseq(ExportConfig(taught, tmp_path / "out"))
    with pytest.raises(UserError, match=r"model\.features="):
        checks.check_trim(TrimConfig(checkpoint=taught, corpora={"en": (str(text),)}, out=tmp_path / "cut"))


WHAT_IS_READ = ("names", "is_known", "digest")


def read_of(folder: Path) -> dict[str, torch.Tensor]:
    tokens = model_weights.load_model(folder)[0].encoder.tokens
    return {name: getattr(tokens, name) for name in WHAT_IS_READ}


@pytest.mark.parametrize("taught", ["float16"], indirect=True)
def test_what_is_no_weight_stays_in_8_bits(taught: Path, tmp_path: Path) -> None:
    quantize.run(QuantizeConfig(taught, tmp_path / "small"))
    wanted, found = read_of(taught), read_of(tmp_path / "small")
    assert int(wanted["names"].max()) > 127
    assert all(torch.equal(found[name], wanted[name]) for name in WHAT_IS_READ)
