"""Wrong usages of every command, for ``tests/test_misuse.py``: the words, and what the one line has to say."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from xling.core.commands.runner import STAGES, load
from xling.core.settings import schema

WRONG = {"whole number": "1.5", "number": "many", "true or false": "perhaps"}


def filled(name: str) -> list[str]:
    """Words that give every required setting of a stage a value of its type."""
    made = []
    for key in schema.keys(load(STAGES[name].config)):
        if key.required:
            value = (
                key.choices[0]
                if key.choices
                else "1"
                if key.kind in ("whole number", "number")
                else "nowhere"
            )
            made.append(f"{key.name}.en=nowhere" if key.is_open else f"{key.name}={value}")
    return made


def of_stages() -> Iterator[tuple[list[str], str]]:
    """The same mistakes with every command, each with what the line has to say."""
    for name, stage in STAGES.items():
        words, given = name.split(), filled(name)
        keys = list(schema.keys(load(stage.config)))
        yield [*words, "no_such_setting=1"], "unknown setting 'no_such_setting'"
        yield [*words, *given, "no_such.setting=1"], "unknown setting 'no_such'"
        yield [*words, *given, "workers=1", "workers=0"], "workers"
        if typed := next((k for k in keys if k.kind in WRONG and k.name.partition(".")[0] not in name), None):
            value = WRONG[typed.kind]
            rest = [word for word in given if not word.startswith(f"{typed.name}=")]
            yield [*words, *rest, f"{typed.name}={value}"], f"{typed.name}="
        if choice := next((k for k in keys if k.choices and not k.required), None):
            yield [*words, *given, f"{choice.name}=purple"], "purple"
        if given:
            yield [*words, given[0], given[0]], "each key once"
        if stage.reads and name != "eval":
            yield [*words, *given], "nowhere"


def by_hand() -> Iterator[tuple[list[str], str]]:
    """Other mistakes."""
    for line, said in (
        ("nonsense", "unknown command"), ("pretrian data=x out=y", "did you mean 'pretrain'"),
        ("schema nonsense", "unknown command 'nonsense'"), ("why-rerun", ""), ("why-rerun eval panx", "why-rerun eval"),
        ("run xlmr_base", "xling pretrain xlmr_base.yaml"), ("run quickstart no.such=1", "unknown variable or step"),
        ("run quickstart scale=gigantic", "unknown scale"), ("config pretrain", "data, out not given"),
        ("pretrain xlmr_base.yaml alm.yaml data=nowhere out=y", "one recipe"),
        ("vocab corpora.en=a out=~/x", "write $HOME"), ("vocab corpora.en=a out=-rf", "a path"),
        ("vocab corpora.en=a out=x size=nan", "size"), ("vocab corpora.en=a out=x size=1e99", "size"),
        ("vocab corpora.en=a out=x size=1e-3", "size"), ("vocab corpora.en=a out=x alpha=nan", "a number"),
        ("vocab corpora.en=a out=x alpha=-1", "alpha"), ("vocab corpora=[ out=x", "not YAML"),
        ("vocab corpora=a out=x", "corpora"), ("vocab corpora.en=nowhere out=x", "nowhere"),
        ("vocab =3 out=x", ""), ("vocab --size out=x", ""), ("vocab corpora.en=a out=x slurm.nodes=2", "cluster="),
        ("pretrain data=nowhere out=y train.updates=0", "train.updates=0"),
        ("pretrain data=nowhere out=y train.lr=0", "train.lr=0"), ("pretrain data=nowhere out=y train.lr=inf", "lr"),
        ("pretrain data=nowhere out=y model.heads=3", "a multiple of the heads"),
        ("pretrain data=nowhere out=y model.dim=0", "model.dim=0"),
        ("pretrain data=nowhere out=y model.positions=sideways", "sideways"),
        ("pretrain data=nowhere out=y train.optimizer=sgdm", "sgdm"),
        ("pretrain data=nowhere out=y", "data=nowhere"), ("eval nosuite out=y data=.", "unknown suite"),
        ("eval panx checkpoint=. out=y data=.", "no checkpoint at ."),
        ("eval", ""), ("translate nowhere src=en tgt=sw", "nowhere"), ("translate nowhere", "src, tgt not given"),
        ("import hf nowhere/at/all x", "nowhere/at/all"), ("import hf", "not given"),
        ("import fairseq nowhere x", "nowhere"), ("export hf nowhere x", "nowhere"),
        ("export tflite a b", "unknown command"),
        ("corpus mono lang=xx", "unknown language"), ("corpus mono lang=en source=ftp:x out=y", ""),
        ("corpus parallel pair=en out=y", ""), ("corpus parallel pair=en-en out=y", ""), ("report nowhere", "nowhere"),
        ("new gadget x", "gadget"), ("slurm frobnicate", ""), ("slurm cancel", ""),
        ("finetune mt data=nowhere out=y", "nowhere"),
        ("sweep.seed=1,2 vocab", "unknown command"), ("vocab sweep.size= corpora.en=a out=x", ""),
    ):  # fmt: skip
        yield line.split(" "), said


CASES = [*of_stages(), *by_hand()]
RECIPES = {
    "twice": (b"data: a\ndata: b\n", "is given twice"),
    "list": (b"- a\n- b\n", "no settings"),
    "latin": (b"data: \xe9t\xe9\n", "not YAML"),
    "binary": (bytes(range(256)), "not YAML"),
    "empty": (b"", "no settings"),
    "unclosed": (b"train: {updates: 3\n", "not YAML"),
    "nested": (b"data: {a: b}\n", "file.yaml:1: data="),
    "type": (b"out: x\ntrain:\n  updates: 3\n  lr: fast\n", "file.yaml:4: train.lr='fast'"),
    "unknown": (b"out: x\ntrain:\n  lrr: 3\n", "file.yaml:3: unknown setting 'train.lrr'"),
    "range": (b"out: x\n\ntrain: {updates: 0}\n", "file.yaml:3: train.updates=0"),
    "scales": (b"scales: 3\n", "scales="),
    "choice": (b"out: y\nmix: sometimes\n", "sometimes"),
}

XLING = f"{sys.executable} -m xling"
MACHINE = (
    # What a machine does to a command: the line for a shell in an empty folder, and what has to be said.
    ("{x} --help >/dev/full", "No space left"), ("{x} pretrain --help >/dev/full", "No space left"),
    ("{x} recipes --json >/dev/full", "No space left"), ("{x} schema >/dev/full", "No space left"),
    ("{x} toyworld out=/proc/x num_docs=2", "/proc/x"), ("{x} toyworld out=/sys/x num_docs=2", "/sys/x"),
    ("{x} toyworld out=/dev/null/x num_docs=2", "/dev/null"), ("{x} toyworld out=/dev/full num_docs=2", "/dev/full"),
    ("touch f; {x} toyworld out=f num_docs=2; code=$?; rm f; exit $code", "f exists"),
    ("touch f; {x} toyworld out=f/x num_docs=2; code=$?; rm f; exit $code", "f"),
    ("mkdir d; touch d/mine; {x} toyworld out=d num_docs=2; code=$?; rm -r d; exit $code", "d"),
    ("{x} toyworld out=$(printf 'x%.0s' {{1..300}}) num_docs=2", "too long"),
    ("{x} toyworld out=. num_docs=2", "out=."), ("{x} toyworld out=/ num_docs=2", "out=/"),
    ("{x} toyworld out='' num_docs=2", "out"),
    ("ulimit -f 8; {x} toyworld out=y num_docs=2000 num_pairs=2000; code=$?; rm -rf .y.* y; exit $code", "too large"),
    ("{x} vocab corpora.en=/dev/full out=y", "/dev/full"), ("{x} vocab corpora.en=/proc out=y", "/proc"),
    ("{x} report /proc/self/mem", "/proc/self/mem"),
    ("{x} corpus mono lang=en source=text:- out=y </dev/null", "empty"),
    ("{x} corpus mono lang=en source=text:/proc/self/mem out=y", "/proc/self/mem"),
    ("mkdir m; echo '{{}}' >m/config.json; {x} import hf m y; code=$?; rm -r m; exit $code", "m"),
    ("mkdir m; echo 'x' >m/config.json; {x} import hf m y; code=$?; rm -r m; exit $code", "config.json"),
    ("mkdir m; echo '{{\"model_type\": \"xlm\"}}' >m/config.json; {x} eval panx data=m checkpoint=m out=y; code=$?; "
     "rm -r m; exit $code", "write hf:m"),
    ("printf 'data: a\\nout: [\\n' >r.yaml; {x} pretrain r.yaml; code=$?; rm r.yaml; exit $code", "r.yaml"),
    ("mkdir r.yaml; {x} pretrain r.yaml; code=$?; rmdir r.yaml; exit $code", "r.yaml"),
    ("{x} pretrain /proc/self/mem.yaml data=a out=b", "mem.yaml"),
    ("{x} pretrain nowhere.yaml data=a out=b", "nowhere.yaml"),
    ("printf '\\xff\\xfe' >r.yaml; {x} run r.yaml; code=$?; rm r.yaml; exit $code", "r.yaml"),
)  # fmt: skip
