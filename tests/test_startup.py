"""What a command imports before it does anything: lists of modules, since times depend on the machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

# What no training of ours uses; each costs between a tenth of a second and two.
HEAVY = (
    "fairseq.models.wav2vec",
    "fairseq.models.roberta",
    "fairseq.tasks.translation",
    "fairseq.data.language_pair_dataset",
    "pandas",
    "polars",
    "scipy",
    "sklearn",
    "sympy",
    "tensorboard",
    "torch._dynamo",
    "torch.onnx",
    "wandb",
)


def loaded(python: Run, code: str) -> set[str]:
    """The modules in a process after ``code``."""
    done = python("-c", f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))")
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_objectives_import_no_more_of_fairseq_than_they_use(python: Run) -> None:
    modules = loaded(python, "import xling.objectives, xling.training.train")
    assert not modules & set(HEAVY)
    of_fairseq = {name for name in modules if name.split(".")[0] == "fairseq"}
    assert len(of_fairseq) <= 65, sorted(of_fairseq)  # 302 when fairseq imports itself
    assert len(modules) <= 1800, len(modules)  # 4604


_ON_DEMAND = """
import logging
import xling.objectives
from fairseq import tasks
from fairseq.models import ARCH_MODEL_REGISTRY
assert "roberta_base" not in ARCH_MODEL_REGISTRY
from fairseq.models.roberta import RobertaModel            # one class of its own, by its module
import fairseq.modules, fairseq.data
assert fairseq.models.bart.BARTModel and fairseq.data.IdDataset and fairseq.modules.LSTMCellWithZoneOut
assert callable(fairseq.modules.gelu) and callable(fairseq.modules.cross_entropy)  # not the files of these names
assert not hasattr(fairseq.data, "nothing") and not hasattr(fairseq, "nothing")
assert "wav2vec2" not in ARCH_MODEL_REGISTRY
root = logging.getLogger()
before = root.level, root.handlers[:]
assert tasks.get_task("translation").__name__ == "TranslationTask"  # a name that only all of fairseq has
assert "wav2vec2" in ARCH_MODEL_REGISTRY and tasks.get_task("xling_mmlm")
assert (root.level, root.handlers) == before
"""

_NAMES = """
import json, {first}
import fairseq, fairseq.data, fairseq.modules
from fairseq import options
options.get_parser("any", "translation")
from fairseq import criterions, models, registry, scoring, tasks
from fairseq.data import encoders
found = dict(tasks=tasks.TASK_REGISTRY, models=models.MODEL_REGISTRY, archs=models.ARCH_MODEL_REGISTRY)
found |= {{name: one["registry"] for name, one in registry.REGISTRIES.items()}}
found = {{name: {{key: entry.__module__ for key, entry in one.items()}} for name, one in found.items()}}
of = lambda package: {{n: getattr(getattr(package, n, None), "__module__", None) for n in package.__all__}}
found |= {{package.__name__: of(package) for package in (fairseq.data, fairseq.modules)}}
print(json.dumps(found))
"""


def test_fairseq_loads_the_rest_when_it_is_asked_for(python: Run) -> None:
    done = python("-c", _ON_DEMAND)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_nothing_that_stock_fairseq_registers_is_missing(python: Run) -> None:
    stock, ours = (python("-c", _NAMES.format(first=first)) for first in ("sys", "xling"))
    assert ours.returncode == 0, ours.stderr
    expected, found = json.loads(stock.stdout), json.loads(ours.stdout)
    assert len(expected["tasks"]) > 30 and len(expected["archs"]) > 140
    for name, entries in expected.items():
        assert found[name] == entries, name
    assert found.keys() == expected.keys()
