"""Each repair of fairseq: the trap is still there without it, and gone with it."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from xling import compat

ROOT = Path(__file__).resolve().parent.parent

_NAMES = "--task xling_mmlm --arch xling_encoder --criterion xling_objective --optimizer xling_adamw"
_SIZES = (
    "--layers 1 --dim 32 --heads 2 --ffn-dim 32 --tokens-per-sample 32 --max-tokens 512 --precision fp32 "
    "--lr 1e-3 --lr-scheduler fixed --cpu --log-format json --num-workers 0 --no-epoch-checkpoints"
)


def command(data: Path, save_dir: Path, more: str) -> list[str]:
    """Words of stock fairseq-train."""
    program = str(Path(sys.executable).parent / "fairseq-train")
    words = f"{_NAMES} {_SIZES} --save-dir {save_dir} {more}".split()
    return [program, str(data), "--user-dir", str(ROOT / "xling"), *words]


def fairseq_train(data: Path, save_dir: Path, more: str) -> subprocess.CompletedProcess[str]:
    """Stock fairseq-train, as a user would start it."""
    return forked.run(*command(data, save_dir, more), cwd=save_dir.parent)


def logged(output: str, tag: str) -> list[dict[str, str]]:
    """What fairseq logged as JSON under ``tag``."""
    return [json.loads(text) for text in re.findall(rf"\| {tag} \| (\{{.*\}})", output)]


@pytest.mark.slow
def test_stock_fairseq_trains_validates_saves_and_resumes(shards: Path, tmp_path: Path) -> None:
    first = fairseq_train(shards, tmp_path / "out", "--max-update 3")
    assert first.returncode == 0, first.stderr
    (train,), (valid,) = logged(first.stdout, "train"), logged(first.stdout, "valid")
    assert train["train_num_updates"] == "3"
    assert {f"valid_loss/mmlm/{lang}" for lang in ("ar", "en", "th")} <= valid.keys()
    # The checkpoint holds an argparse.Namespace; resuming reads it.
    second = fairseq_train(shards, tmp_path / "out", "--max-update 5")
    assert second.returncode == 0, second.stderr
    assert re.search(r"Loaded checkpoint .*checkpoint_last.pt \(epoch \d+ @ 3 updates\)", second.stdout)
    assert logged(second.stdout, "train")[-1]["train_num_updates"] == "5"


_HYDRA = f"""
common: {{user_dir: {ROOT / "xling"}, cpu: true, log_format: json}}
task: {{_name: xling_mmlm, data: DATA, tokens_per_sample: 32, mask_unit: word}}
model: {{_name: xling_encoder, layers: 1, dim: 32, heads: 2, ffn_dim: 32, precision: fp32}}
criterion: {{_name: xling_objective}}
optimizer: {{_name: xling_adamw}}
lr_scheduler: {{_name: fixed}}
optimization: {{lr: [0.001], max_update: 2}}
dataset: {{max_tokens: 512, num_workers: 0}}
checkpoint: {{no_save: true}}
"""


@pytest.mark.slow
def test_stock_fairseq_trains_through_hydra(shards: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(_HYDRA.replace("DATA", str(shards)))
    command = [str(Path(sys.executable).parent / "fairseq-hydra-train"), "--config-dir", str(tmp_path)]
    words = ["--config-name", "tiny", f"hydra.run.dir={tmp_path / 'run'}"]
    done = forked.run(*command, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = (text for text in done.stdout.splitlines() if "[train][INFO]" in text)
    told = json.loads(line.partition(" - ")[2])
    assert told["train_num_updates"] == "2" and "train_loss/mmlm/en" in told


_TRAININGS = """
import json, sys, torch
from fairseq_cli.train import cli_main
for sys.argv in json.loads(sys.argv[1]):
    print("begin", flush=True)
    cli_main()
first, second = (torch.load(p)["model"] for p in ("out0/checkpoint_last.pt", "out1/checkpoint_last.pt"))
assert first.keys() == second.keys()
print("differ:", sum(not torch.equal(first[k], second[k]) for k in first))
"""


@pytest.mark.slow
def test_masks_do_not_depend_on_workers_in_any_epoch(shards: Path, tmp_path: Path) -> None:
    # Trap: stock masked_lm keeps its workers, whose epoch is frozen: from epoch 2 on the masks repeat.
    data = tmp_path / "data"
    shutil.copytree(shards, data)
    shutil.rmtree(data / "en")  # the large language: an epoch is a few batches
    more = "--max-epoch 2 --disable-validation --num-workers"
    commands = [command(data, tmp_path / f"out{workers}", f"{more} {workers}") for workers in (0, 1)]
    done = forked.run("-c", _TRAININGS, json.dumps(commands), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # Each training notes both epochs.
    assert [len(logged(part, "train")) for part in done.stdout.split("begin\n")] == [0, 2, 2]
    assert "\ndiffer: 0\n" in done.stdout


_LOAD = """
import argparse, os, pickle, sys, torch
from omegaconf import OmegaConf

class Evil:
    def __reduce__(self):
        return os.mkdir, (sys.argv[2],)

def attempt(thing):
    torch.save(thing, sys.argv[1])
    try:
        torch.load(sys.argv[1])
        return "loaded"
    except pickle.UnpicklingError:
        return "refused"

things = {
    "namespace": {"args": argparse.Namespace(lr=[1e-3])},
    "config": {"cfg": OmegaConf.create({"optimization": {"lr": [1e-3]}, "task": {"_name": "xling_mmlm"}})},
    "code": {"args": Evil()},
}
print(*(attempt(thing) for thing in things.values()))
from xling import compat
compat.install()
compat.install()
print(*(attempt(thing) for thing in things.values()))
"""


def test_checkpoints_load_without_letting_code_in(tmp_path: Path) -> None:
    done = forked.run("-c", _LOAD, str(tmp_path / "x.pt"), str(tmp_path / "made-by-the-pickle"))
    assert done.stdout.splitlines() == ["refused refused refused", "loaded loaded refused"], done.stderr
    assert not (tmp_path / "made-by-the-pickle").exists()


_PARSE = f"""
import sys
import xling                         # as in an in-process launch, or an editable install
from fairseq import options
words = "data --user-dir {ROOT / "xling"} {_NAMES} --layers 7".split()
sys.argv[1:] = words                 # fairseq looks for --user-dir in the real command line
try:
    options.parse_args_and_arch(options.get_training_parser(), words)
except SystemExit as error:
    print("trap", error.code)
from xling import compat
compat.install()
args = options.parse_args_and_arch(options.get_training_parser(), words)
print(args.layers, args.optimizer)
"""


def test_user_dir_works_when_the_package_is_already_loaded() -> None:
    done = forked.run("-c", _PARSE)
    assert done.stdout.splitlines() == ["trap 2", "7 xling_adamw"], done.stderr
    assert "invalid choice: 'xling_" in done.stderr


def test_fairseq_cannot_read_postponed_annotations() -> None:
    from argparse import ArgumentParser
    from dataclasses import dataclass

    from fairseq.dataclass import FairseqDataclass
    from fairseq.dataclass.utils import gen_parser_from_dataclass

    @dataclass
    class Postponed(FairseqDataclass):  # this module's annotations are postponed
        size: int = 3

    with pytest.raises(RuntimeError, match="field should be a type"):
        gen_parser_from_dataclass(ArgumentParser(), Postponed())


def test_every_setting_of_ours_is_an_option_of_fairseq() -> None:
    from argparse import ArgumentParser

    from fairseq.dataclass.utils import gen_parser_from_dataclass

    from xling.models.network.encoder import EncoderConfig
    from xling.models.optim.adamw import AdamWConfig
    from xling.objectives import OBJECTIVES

    importlib.import_module("xling.tasks.register")
    for config in (EncoderConfig, AdamWConfig, *(entry.config for entry in OBJECTIVES.values())):
        parser = ArgumentParser()
        gen_parser_from_dataclass(parser, config())
        options = {action.dest for action in parser._actions}
        names = {name for name in config.__dataclass_fields__ if not name.startswith("_")}
        # Values that point into another part, such as the seed, are options of that part.
        elsewhere = {name for name in names if str(getattr(config(), name)).startswith("${")}
        assert names - elsewhere <= options, config


def test_fairseq_keeps_the_old_task_of_a_name_in_silence() -> None:
    from fairseq.tasks import TASK_REGISTRY, FairseqTask, register_task

    from xling.objectives import OBJECTIVES

    assert OBJECTIVES["mmlm"].name == "mmlm"  # which registers its task

    class Second(FairseqTask):
        pass

    assert register_task("xling_mmlm")(Second) is not Second
    assert TASK_REGISTRY["xling_mmlm"].__name__ == "XlingMmlmTask"


def test_a_second_registration_raises() -> None:
    from xling import compat
    from xling.objectives import OBJECTIVES
    from xling.objectives.base import objective

    with pytest.raises(ValueError, match="objective 'mmlm' is registered twice"):
        objective("mmlm")(OBJECTIVES["mmlm"])
    for kind, name in (("task", "xling_mmlm"), ("task", "masked_lm"), ("model", "xling_encoder")):
        with pytest.raises(ValueError, match=f"fairseq already has a {kind} called '{name}'"):
            compat.check_new(kind, name)
    compat.check_new("task", "xling_something_new")


# A resumed run looks its scheduler up again, with the optimiser that it replaces.
_LOOKUP = """
import gc, weakref
import xling
from fairseq.optim import lr_scheduler
from omegaconf import OmegaConf

class Optimizer: ...

gc.disable()
cfg = OmegaConf.create({"_name": "polynomial_decay"})
OmegaConf.set_struct(cfg, True)
optimizer = Optimizer()
kept = weakref.ref(optimizer)
try:
    lr_scheduler.build_lr_scheduler(cfg, optimizer)
except ValueError as error:
    print(error)
del optimizer
print(kept())
"""


def test_a_lookup_keeps_no_argument() -> None:
    done = forked.run("-c", _LOOKUP)
    assert done.stdout.splitlines() == ["optimizer must be an instance of FairseqOptimizer", "None"], (
        done.stderr
    )


@pytest.mark.parametrize(("given", "used"), [(None, "1"), ("0", "0")])
def test_torch_is_asked_for_huge_pages_unless_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, given: str | None, used: str
) -> None:
    monkeypatch.setenv(compat.HUGE_PAGES_VARIABLE, given or "")
    if given is None:
        monkeypatch.delenv(compat.HUGE_PAGES_VARIABLE)
    compat.ask_for_huge_pages()
    assert os.environ[compat.HUGE_PAGES_VARIABLE] == used
