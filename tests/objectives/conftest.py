"""Parallel and code-switched shards beside the monolingual ones, and what tests of objectives build from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Build = Callable[..., Any]


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line]


@pytest.fixture(scope="session")
def bitext(corpus: Path, vocab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of en, ar and th, of the pairs en-ar and en-th, and of code-switched en-ar; one document a paragraph."""
    import numpy as np

    from xling.corpora.binarize import BinarizeConfig, run
    from xling.text.files import pair_documents, shards

    folder = tmp_path_factory.mktemp("bitext")
    text = {lang: _lines(corpus / f"{lang}.txt") for lang in ("en", "ar", "th")}
    for lang, other in (("en", "ar"), ("en", "th")):
        rows = list(zip(text[lang], text[other], strict=False))
        for side, name in enumerate((lang, other)):
            (folder / f"{lang}-{other}.{name}").write_text("".join(f"{row[side]}\n" for row in rows), "utf-8")
    switched = [
        (f"{a} {b.split()[-1]}", f"{'en ' * len(a.split())}ar")
        for a, b in zip(text["en"], text["ar"], strict=False)
    ]
    for side, name in enumerate(("switched", "langs")):
        (folder / name).write_text("".join(f"{row[side]}\n" for row in switched), "utf-8")
    cfg = BinarizeConfig(
        vocab=str(vocab),
        out=str(folder / "shards"),
        corpora={lang: (str(corpus / f"{lang}.txt"),) for lang in text},
        pairs={p: tuple(f"{folder}/{p}.{side}" for side in p.split("-")) for p in ("en-ar", "en-th")},
        switched={"en-ar": (f"{folder}/switched", f"{folder}/langs")},
    )
    run(cfg)
    for path in sorted((folder / "shards").glob("*-*/*.en-*.en.idx")):  # documents of five pairs
        split, pair, _, _ = path.name.split(".")
        num = len(shards.open_shard(path.with_suffix("")).sizes)
        np.save(pair_documents.path_of(folder / "shards", pair, split), np.arange(0, num, 5))
    _publish_teacher(folder)
    return folder / "shards"


def _publish_teacher(folder: Path) -> None:
    """A model of random weights that are not small, ``teacher``, over the vocabulary of ``shards``."""
    import torch

    from xling.core.output import manifest
    from xling.models.files import model_weights
    from xling.models.network.encoder import EncoderConfig, EncoderModel

    torch.manual_seed(11)
    shape = EncoderConfig(layers=3, dim=48, heads=4, ffn_dim=64, max_positions=64, dropout=0.0)
    with (folder / "shards" / "dict.txt").open(encoding="utf-8") as lines:
        model = EncoderModel(shape, 4 + sum(1 for _ in lines) + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    with manifest.publish(folder / "teacher", "pretrain", shape) as made:
        for name in ("dict.txt", "spm.model"):
            (made.path / name).write_bytes((folder / "shards" / name).read_bytes())
        model_weights.save_model(made.path / "model.pt", model, ["ar", "en", "th"], made.path)


@pytest.fixture(scope="session")
def build(bitext: Path) -> Build:
    """A Trainer and its task on the shards: ``build("tlm", "model.layers=1", ...)``."""

    def made(name: str, *words: str, save_dir: Path = Path("unused")) -> tuple[Any, Any]:
        from xling.training.assemble import build_trainer

        return build_trainer(_recipe(bitext, name, save_dir, *words), save_dir)

    return made


@pytest.fixture(scope="session")
def warm(bitext: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A training in this process: what it imports, builds and measures once, every fork would make anew."""
    from tests.objectives.processes import WARM_UP
    from xling.training import train

    out = tmp_path_factory.mktemp("warm") / "out"
    train.run(_recipe(bitext, WARM_UP, out, "train.updates=1", "train.valid_every=1"))


@pytest.fixture(scope="session")
def recipe() -> Build:
    """The settings of a tiny run: ``recipe(data, "mmlm+tlm", out, "mix=sum")``."""
    return _recipe


@pytest.fixture
def refused() -> Callable[..., None]:
    """The training refuses settings, and so does the check that the command makes before torch is imported."""
    from xling.core.errors import UserError
    from xling.training import checks, train

    def each(pattern: str, data: Path, names: str, out: Path, *words: str) -> None:
        for run in (train.run, checks.check):
            with pytest.raises(UserError, match=pattern):
                run(_recipe(data, names, out, *words))
        assert not out.exists()

    return each


def _recipe(data: Path, names: str, out: Path, *words: str) -> Any:
    """The settings of a tiny run of one or several objectives, joined by ``+``."""
    from xling.core.settings import config
    from xling.objectives import OBJECTIVES
    from xling.training.settings import PretrainConfig

    objectives = {
        name: {"tokens_per_sample": "64"}
        | {
            key: value.format(teacher=data.parent / "teacher")
            for key, value in OBJECTIVES[name].trial.settings.items()
        }
        for name in names.split("+")
    }
    base = config.from_dict(
        PretrainConfig, {"data": str(data), "out": str(out), "objectives": objectives}, "test"
    )
    overrides = {
        "model": {
            "layers": 2,
            "dim": 32,
            "heads": 2,
            "ffn_dim": 64,
            "max_positions": 64,
            "precision": "fp32",
        },
        "train": {
            "batch_tokens": 256,
            "warmup": 2,
            "log_every": 1,
            "updates": 3,
            "valid_every": 3,
            "save_every": 1,
        },
    }
    data_of = config.merge(config.to_dict(base), overrides)
    for word in words:
        key, _, value = word.partition("=")
        data_of = config.merge(data_of, config.nested(key, value))
    return config.from_dict(PretrainConfig, data_of, "test")
