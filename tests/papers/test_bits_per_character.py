"""Bits a character of a forward and backward language model: by hand, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from xling.core.errors import UserError
from xling.core.settings import config
from xling.hub import checks
from xling.hub.settings import TrimConfig
from xling.models.files import model_weights
from xling.papers.bits_per_character import run
from xling.papers.bits_per_character_settings import BitsConfig
from xling.text import vocab as vocabulary
from xling.training import train
from xling.training.settings import PretrainConfig
from xling.transfer.encode import BOS, EOS, encode_pieces


@pytest.fixture(scope="module")
def trained(shards: Path, tiny: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bits") / "model"
    words = [w for w in tiny if not w.startswith("objectives.")]
    more = [
        "objectives.bilm.tokens_per_sample=48",
        "model.char_cnn=2",
        "model.two_way=true",
        "train.updates=2",
    ]
    train.run(config.load(PretrainConfig, None, [f"data={shards}", f"out={out}", *words, *more]))
    return out


def test_bits_are_those_of_the_losses_by_hand(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b c\nthe sea and the land\n", encoding="utf-8")
    answer = run(BitsConfig(trained, {"en": (f"{tmp_path}/text",)}, tmp_path / "bits"))
    model, _ = model_weights.load_model(trained)
    processor, nats, half = vocabulary.load_processor(trained), 0.0, model.cfg.dim // 2
    for text in ("a b c", "the sea and the land"):
        ids = torch.tensor([BOS, *encode_pieces(processor, text), EOS])
        with torch.no_grad():
            states = model.eval()(ids, torch.arange(len(ids)), [(1, len(ids))])
            ahead, back = states.clone(), states.clone()
            ahead[:, half:], back[:, :half] = 0, 0
            log = torch.log_softmax(model.lm_head.logits(torch.cat([ahead[:-1], back[2:]])).float(), -1)
        wanted = torch.cat([ids[1:], ids[1:-1]])
        nats -= float(log[torch.arange(len(wanted)), wanted].sum())
    assert answer.data["en"]["characters"] == 27
    assert answer.data["en"]["bits"] == pytest.approx(nats / 2 / math.log(2) / 27, rel=1e-4)
    assert answer.data["en"]["low"] < answer.data["en"]["bits"] < answer.data["en"]["high"]


def test_another_model_is_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"was not trained with the objective bilm"):
        run(BitsConfig(model, {"en": (f"{model}/dict.txt",)}, tmp_path / "bits"))
    with pytest.raises(UserError, match="no text is named"):
        run(BitsConfig(model, {}, tmp_path / "bits"))


def test_a_model_that_reads_characters_has_no_pieces_to_trim(
    trained: Path, corpus: Path, tmp_path: Path
) -> None:
    cfg = TrimConfig(trained, tmp_path / "out", {"en": (f"{corpus}/en.txt",)})
    with pytest.raises(UserError, match=r"has model\.char_cnn; valid: a model with a vector for each piece"):
        checks.check_trim(cfg)
