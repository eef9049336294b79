"""What a command imports before it does anything: lists of modules, since times depend on the machine."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests import forked
from xling.models.files import model_folder, model_weights

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
    modules = loaded(python, "import xling.training.train; list(xling.objectives.OBJECTIVES.values())")
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
assert "wav2vec2" in ARCH_MODEL_REGISTRY
assert xling.objectives.OBJECTIVES["mmlm"] and tasks.get_task("xling_mmlm")
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


def test_fairseq_loads_the_rest_when_it_is_asked_for() -> None:
    done = forked.run("-c", _ON_DEMAND)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_nothing_that_stock_fairseq_registers_is_missing() -> None:
    stock, ours = (forked.run("-c", _NAMES.format(first=first)) for first in ("sys", "xling"))
    assert ours.returncode == 0, ours.stderr
    expected, found = json.loads(stock.stdout), json.loads(ours.stdout)
    assert len(expected["tasks"]) > 30 and len(expected["archs"]) > 140
    for name, entries in expected.items():
        assert found[name] == entries, name
    assert found.keys() == expected.keys()


# Of what a user's mistake is told without: what a stage imports to compute.
COMPUTING = {
    "datasets",
    "fairseq",
    "matplotlib",
    "sacrebleu",
    "scipy.sparse",
    "scipy.special",
    "sklearn",
    "torch",
    "transformers",
}

_HELP = """
from xling.core.commands.runner import STAGES
from xling.cli import main
for name in STAGES:
    assert main([*name.split(), "--help"]) == 0, name
    heavy = {heavy} & set(sys.modules)
    assert not heavy, (name, heavy)
"""


def test_help_imports_nothing_that_computes(python: Run) -> None:
    done = python("-c", f"import sys\n{_HELP.format(heavy=COMPUTING)}")
    assert done.returncode == 0, done.stderr


_MISTAKES = (
    "pretrian",
    "pretrain data=nowhere out=out",
    "pretrain data=. init=nowhere out=out",
    "pretrain data=. out=out train.lr=fast",
    "eval nosuch data=. checkpoint=. out=out",
    "eval toy_ner data=. checkpoint=nowhere out=out",
    "eval toy_ner data=nowhere checkpoint=. out=out",
    "finetune nosuch data=. checkpoint=. out=out",
    "finetune toy_ner data=. checkpoint=nowhere out=out",
    "finetune mt data=nowhere out=out",
    "finetune mt data=. checkpoint=nowhere out=out",
    "finetune generate checkpoint=nowhere train=rows out=out",
    "umt data=nowhere pairs=en-fr out=out",
    "translate nowhere src=en tgt=fr",
    "back-translate checkpoint=nowhere text=x src=en tgt=fr out=out",
    "swap task=nowhere embeddings=. out=out",
    "export hf nowhere out",
    "export fairseq nowhere out",
    "import fairseq nowhere out",
    "import xlm nowhere out",
    "import xlm . out",
    "trim nowhere out corpora.en=x",
    "quantize nowhere out",
    "corpus mono lang=xx source=text:nowhere out=out",
    "report nowhere",
)

_REFUSED = """
import sys
from xling.cli import main
for words in {mistakes!r}:
    assert main(words.split()) == 2, words
    heavy = {heavy} & set(sys.modules)
    assert not heavy, (words, heavy)
"""


def test_mistakes_are_told_before_anything_that_computes_is_imported(python: Run, tmp_path: Path) -> None:
    done = python("-c", _REFUSED.format(mistakes=_MISTAKES, heavy=COMPUTING), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("xling: ")]
    assert len(lines) == len(_MISTAKES), done.stderr
    assert not list(tmp_path.iterdir())


# What is wrong lies in the content of files: shards, models, rows. Of each what the line has to say.
_IN_FILES = (
    ("pretrain data={corpus} out=out", "has no manifest.json"),
    ("pretrain data={vocab} out=out", "no shards in"),
    ("pretrain data={shards} out=out langs=fr", "unknown language in"),
    ("pretrain data={shards} out=out langs=en,en", "given twice"),
    ("pretrain data={shards} out=out objectives.tlm.alpha=0.3", "no parallel shards"),
    ("pretrain data={shards} out=out objectives.mmlm.alfa=0.3", "unknown setting 'alfa'"),
    ("pretrain data={shards} out=out objectives.mmml.alpha=0.3", "unknown objective 'mmml'"),
    ("pretrain data={shards} out=out objectives.mmlm.alpha=fast", "a value of type float"),
    ("pretrain data={shards} out=out objectives.mmlm.alpha=3", "a number from 0 to 1"),
    ("pretrain data={shards} out=out objectives.mmlm.tokens_per_sample=4", "a whole number from 8"),
    ("pretrain data={shards} out=out model.max_positions=16", "with model.max_positions=16"),
    ("pretrain data={shards} out=out train.batch_tokens=16", "at least 256, one example"),
    ("pretrain data={shards} out=out log=purple", "unknown log"),
    ("pretrain data={shards} out=out branch=nowhere", "branch=nowhere"),
    ("pretrain data={shards} out=out init_pieces={model}", "is not a static encoder"),
    ("pretrain data={shards} out=out init={shards}", "no checkpoint at"),
    ("pretrain data={shards} out=out init={model} model.heads=1", "not 1"),
    ("pretrain data={shards} out=out init={model} {shape} model.ffn_dim=32", "has model.ffn_dim="),
    ("pretrain data={shards} out=out init={model} {shape} model.layers=1", "layers or more, or init_layers="),
    ("pretrain data={cut} out=out", "bytes"),
    ("pretrain data={shards} out={model}", "is finished and was made with other settings"),
    ("finetune mt data={corpus} out=out", "no dict.txt in"),
    ("finetune mt data={shards} out=out", "no parallel shards"),
    ("finetune mt data={shards} out=out directions=en-fr", "directions=en-fr: no parallel shards"),
    ("finetune mt data={shards} out=out test.en-th=a", "two: sources and references"),
    ("finetune mt data={shards} out=out test.en-th=a,b", "no file at a"),
    ("finetune generate checkpoint={model} train={corpus}/en.txt out=out", "SOURCE<TAB>TARGET"),
    ("umt data={shards} pairs=en-fr out=out", "no text in fr"),
    ("translate {model} src=en tgt=th", "model.pt holds an encoder; valid: a model with a decoder"),
    ("translate {seq2seq} src=en tgt=fr", "was not trained on 'fr'"),
    ("translate {seq2seq} src=en tgt=xx", "unknown language 'xx'"),
    ("translate {seq2seq} src=en tgt=th buffer=0", "buffer=0"),
    (
        "back-translate checkpoint={model} text={corpus}/en.txt src=en tgt=th out=out",
        "a model with a decoder",
    ),
    ("analyse bits {model} text.en={corpus}/en.txt out=out", "was not trained with the objective bilm"),
    ("swap task={model} embeddings={model} out=out", "a directory with task.pt"),
    ("swap task={model} out=out", "neither embeddings= nor adapters="),
    ("trim {model} out corpora.en=nowhere", "nothing to read at 'nowhere'"),
    ("trim {model} out corpora.en={corpus}/en.txt least=0", "least=0"),
    ("eval toy_ner data={corpus} checkpoint={model} out=out", "no rows of toy_ner below"),
    ("eval toy_ner data={corpus} checkpoint={model} out=out seeds=-1", "whole numbers from 0"),
    ("eval toy_ner data={corpus} checkpoint={model} out=out fit.epochs=0", "fit.epochs=0"),
    ("eval toy_ner data={rows} out=out", "no checkpoint is given"),
    ("eval toy_ner data={corpus} checkpoint={model} out=out protocol=purple", "unknown protocol"),
    ("eval toy_ner data={corpus} checkpoint={model} out=out train_with=purple", "unknown suite"),
    ("eval toy_ner data={corpus} checkpoint={model} out=out fit.layer_decay=5", "above 0, at most 1"),
    ("finetune toy_ner data={corpus} checkpoint={model} out=out fit.switch.sw=nowhere", "at nowhere"),
    ("pretrain data={shards} out=out model.decoder_layers=3", "without an objective that has a decoder"),
    ("pretrain data={shards} out=out objectives.distill.teacher={vocab}", "no checkpoint at"),
    ("finetune toy_ner data={corpus} checkpoint={model} out=out", "has no train rows in 'en'"),
    ("pretrain static data={shards} out=out", "an output of xling corpus nway"),
    ("pretrain data={shards} out=out objectives.mmlm.mask_prob=2", "mask_prob=2.0; valid: a share"),
    (
        "pretrain data={shards} out=out objectives.mmlm.mask_unit=wrod",
        "'wrod'; fix: did you mean 'word'?; valid: span, token, word",
    ),
    ("pretrain data={shards} out=out objectives.umt.reuse=0", "reuse=0; valid: a whole number from 1"),
    ("pretrain data={shards} out=out objectives.umt.pairs=en-fr", "pair en-fr: no text in fr"),
    ("translate {old} src=en tgt=fr", "was not trained on 'fr'"),
    (
        "pretrain data={shards} out=out objectives.distill.soft=-1 objectives.distill.teacher={model}",
        "weights",
    ),
    ("pretrain data={shards} out=out objectives.distill.teacher={model}", "the positions of the teacher"),
    ("pretrain data={shards} out=out objectives.mmlm.schedule=0:1", "schedule with one objective"),
    ("pretrain data={shards} out=out mix=sum objectives.mmlm.weight=0 objectives.clm.weight=1", "weight=0"),
    ("pretrain data={shards} out=out phases.a.langs=en", "one of the two above 0"),
    ("pretrain data={shards} out=out phases.a.updates=2 phases.a.langs=fr", "unknown language in"),
    ("pretrain data={shards} out=out phases.a.updates=2 phases.a.alpha=3", "alpha=3"),
    ("pretrain data={shards} out=out phases.a.updates=2 phases.a.objectives.xx.alpha=1", "unknown objective"),
    ("pretrain data={shards} out=out train.sharding=full objectives.umt.reuse=2", "with objectives.umt"),
    ("pretrain data={shards} out=out model.own_positions=2 model.positions=rope", "model.positions=learnt"),
    ("umt data={shards} pairs=en-th out=out back.reuse=0", "reuse=0"),
    (
        "mine src={corpus}/en.txt tgt={corpus}/th.txt pair=en-th checkpoint={task} out=out",
        "task is fine-tuned",
    ),
    ("import hf {hub} out", "config.json: layer_norm_eps='x'; valid: a number"),
    ("export hf {task} out", "a head for intent_slots"),
    ("export hf {odd} out", "before the blocks (model.pre_norm), which XLM-R's classes cannot express"),
    ("export hf {seq2seq} out", "(model.plain_head=false), which BART's classes cannot express"),
    ("export fairseq {odd} out", "(model.pre_norm), which XLM-R's classes cannot express"),
    ("eval toy_ner data={corpus} checkpoint={task} systems=random out=out", "has no random control"),
)


def test_what_is_wrong_in_files_is_told_without_torch(
    python: Run, corpus: Path, vocab: Path, shards: Path, model: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    (rows := tmp_path / "rows" / "ner").mkdir(parents=True)
    (rows / "en.test.tsv").write_text("two\tO\nbooks\tO\n\n")
    (hub := tmp_path / "hub").mkdir()
    (hub / "config.json").write_text('{"model_type": "bert", "layer_norm_eps": "x"}')
    cut, seq2seq = tmp_path / "cut", tmp_path / "seq2seq"
    shutil.copytree(shards, cut)
    (cut / "en" / "train.bin").write_bytes(b"")
    shutil.copytree(vocab, seq2seq, ignore=shutil.ignore_patterns("manifest.json"))
    model_weights.write_published(
        seq2seq / "model.pt", model_folder.SEQ2SEQ, {"shape": {}, "langs": ["en", "th"]}, {}, seq2seq
    )
    task, old, odd = (Path(shutil.copytree(seq2seq, tmp_path / name)) for name in ("task", "old", "odd"))
    torch.save(torch.load(old / "model.pt"), old / "model.pt", _use_new_zipfile_serialization=False)
    facts = {"shape": {"pre_norm": True}, "langs": ["en"], "kind": "intent_slots", "labels": []}
    for path, kind in ((odd / "model.pt", model_folder.ENCODER), (task / "task.pt", model_folder.TASK)):
        model_weights.write_published(path, kind, facts, {}, path.parent)
    (task / "model.pt").unlink()
    shape = " ".join(word for word in tiny if word.startswith(("model.", "objectives.")))
    places = {
        "corpus": corpus,
        "vocab": vocab,
        "shards": shards,
        "model": model,
        "cut": cut,
        "seq2seq": seq2seq,
        "rows": rows.parent,
        "task": task,
        "old": old,
        "odd": odd,
        "hub": hub,
    }
    lines_ = [line.format(**places, shape=shape).split() for line, _ in _IN_FILES]
    usages = [" ".join({word.partition("=")[0]: word for word in words}.values()) for words in lines_]
    done = python("-c", _REFUSED.format(mistakes=usages, heavy=COMPUTING), cwd=tmp_path / "here")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("xling: ")]
    for usage, (_, said), line in zip(usages, _IN_FILES, lines, strict=True):
        assert said in line, (usage, line)
    assert not list((tmp_path / "here").iterdir())


_PLAIN = """
import sys
from xling.cli import main
assert main("toyworld out=raw num_docs=20 num_pairs=20 num_ner=20 num_nli=20".split()) == 0
KEPT = "before_dedup=repair dedup=false near_dedup=false after_dedup=[]"  # sentences of a closed world recur
assert main(f"corpus mono lang=en source=text:raw/mono/en.txt out=en {KEPT}".split()) == 0
assert main("vocab corpora.en=en out=vocab size=200 coverage=1.0".split()) == 0
assert main("binarize vocab=vocab corpora.en=en out=shards".split()) == 0
print(*({"torch", "fairseq", "transformers", "matplotlib"} & set(sys.modules)))
"""


def test_stages_on_text_import_no_torch(python: Run, tmp_path: Path) -> None:
    done = python("-c", _PLAIN, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "", done.stdout
