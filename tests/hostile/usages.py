"""Wrong usages that need files: hostile recipes, links, cut and damaged models, outputs in the place of inputs.

Each is a line for a shell that makes the files in an empty folder, the words of a command, and what has to be said.
``$M`` is a small model in the form of transformers (`write_model`), ``$T`` a folder with the outputs of `STAGES`.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from xling import cli

STAGES = (
    "toyworld out=raw num_docs=60 num_pairs=60 num_ner=30 num_nli=30",
    "vocab corpora.en=raw/mono/en.txt corpora.sw=raw/mono/sw.txt out=vocab size=150 coverage=1.0",
    "binarize vocab=vocab corpora.en=raw/mono/en.txt corpora.sw=raw/mono/sw.txt out=shards",
    "pretrain data=shards out=model objectives.mmlm.tokens_per_sample=32 model.layers=1 model.dim=16 model.heads=2 "
    "model.ffn_dim=16 model.max_positions=64 train.updates=2 train.batch_tokens=256 train.valid_every=2 train.warmup=1",
)
DEEP = "python3 -c \"print('['*100000)\""
COPY, MODEL = "cp -r $M m; ", "cp -r $T/model m; "
INDEX = "model.safetensors.index.json"

HOSTILE: tuple[tuple[str, str, str], ...] = (
    # Recipes and pipelines.
    (r"printf 'a: &a [x,x]\nb: &b [*a,*a]\ndata: *b\n' >r.yaml", "pretrain r.yaml out=y", "unknown setting 'a'"),
    (r"printf 'data: !!python/object/apply:os.system [ls]\nout: y\n' >r.yaml", "pretrain r.yaml", "r.yaml:1: data="),
    ("python3 -c \"print('data: '+'['*3000+']'*3000)\" >r.yaml", "pretrain r.yaml out=y", "r.yaml is not YAML"),
    (r"printf 'data: &x {a: *x}\nout: y\n' >r.yaml", "pretrain r.yaml", "r.yaml is not YAML"),
    (r"printf '? [a, b]\n: c\n' >r.yaml", "pretrain r.yaml data=q out=y", "a key is not text"),
    (r"printf '1: a\nout: y\n' >r.yaml", "pretrain r.yaml data=q", "unknown setting '1'"),
    (r"printf 'data: q\nout: y\n---\ndata: z\n' >r.yaml", "pretrain r.yaml", "a single document"),
    (r"printf 'data: q\nout: y\ntrain: 3\n' >r.yaml", "pretrain r.yaml", "r.yaml:3: train='3'"),
    (r"printf 'data: q\nout: y\nobjectives: [mmlm]\n' >r.yaml", "pretrain r.yaml", "r.yaml:3: objectives="),
    (r"""printf 'data: "q\\0z"\nout: y\n' >r.yaml""", "pretrain r.yaml", "NUL"),
    (r"printf 'data: q\r\nout: y\r\n\ttrain: 3\r\n' >r.yaml", "pretrain r.yaml", "line 3"),
    ("ln -s r.yaml r.yaml", "pretrain r.yaml data=q out=y", "no recipe at r.yaml"),
    ("mkfifo r.yaml", "pretrain r.yaml data=q out=y", "no recipe at r.yaml"),
    ("echo 'steps: 3' >p.yaml", "run p.yaml", "steps='3'"),
    ("echo 'steps: {a: 3}' >p.yaml", "run p.yaml", "steps.a='3'"),
    ("echo 'steps: {a: {stage: vocab, config: 3}}' >p.yaml", "run p.yaml", "config='3'"),
    ("echo 'steps: {a: {stage: vocab, after: a}}' >p.yaml", "run p.yaml", "wait for each other"),
    ("echo 'steps: {a: {stage: vocab, config: {out: \"${steps.b.out}\"}}}' >p.yaml", "run p.yaml", "'steps.b.out'"),
    ("printf 'steps:\\n  a: {stage: vocab, config: {out: x, corpora: {en: q}}}\\n  b: {stage: vocab, config: {out: x, "
     "size: 9, corpora: {en: q}}}\\n' >p.yaml", "run p.yaml", "same out=x"),
    ("printf 'vars: 3\\nsteps: {a: {stage: vocab}}\\n' >p.yaml", "run p.yaml", "vars='3'"),
    # Links, pipes and folders in the place of files.
    ("mkdir d; ln -s d d/loop; ln -s nowhere d/dead", "vocab corpora.en=d out=y", "nothing to read at 'd'"),
    ("ln -s a b; ln -s b a", "vocab corpora.en=a out=y", "nothing to read at 'a'"),
    ("ln -s a b; ln -s b a", "toyworld out=a num_docs=2 num_pairs=2 num_ner=2 num_nli=2", "out=a: links"),
    ("ln -s a b; ln -s b a", "pretrain data=a out=y", "data=a"),
    ("ln -s a b; ln -s b a", "import hf a y", "no directory a"),
    ("mkdir d d/a.txt", "vocab corpora.en=d/a.txt out=y", "nothing to read at"),
    ("mkfifo a.txt", "vocab corpora.en=a.txt out=y", "a device or a pipe"),
    ("mkfifo f", "corpus mono lang=en source=text:f out=y", "no file matches"),
    ("mkfifo f", "report f out=y", "no run at f"),
    ("mkdir out; mkfifo out/manifest.json", "toyworld out=out num_docs=2", "was not made by xling"),
    (r"printf '\xff\xfe\x00' >a.txt", "vocab corpora.en=a.txt out=y", "not UTF-8"),
    # Models of others, cut and changed.
    (COPY + "head -c 50 $M/model.safetensors >m/model.safetensors", "import hf m y", "damaged"),
    (COPY + ": >m/model.safetensors", "import hf m y", "damaged"),
    (COPY + r"printf '\377\377\377\377\377\377\377\177' >m/model.safetensors", "import hf m y", "damaged"),
    (COPY + "rm m/model.safetensors; mkdir m/model.safetensors", "import hf m y", "no weights"),
    (COPY + DEEP + " >m/config.json", "import hf m y", "not JSON"),
    (COPY + "truncate -s 1T m/config.json", "import hf m y", "1099511627776 bytes"),
    (COPY + "rm m/config.json; mkdir m/config.json", "import hf m y", "no file m/config.json"),
    (COPY + "echo '{\"model_type\": [\"bert\"]}' >m/config.json", "import hf m y", "of type"),
    (COPY + "sed -i 's/\"hidden_size\": 8/\"hidden_size\": 1000000000/' m/config.json", "import hf m y", "no tensor"),
    (COPY + "sed -i 's/heads\": 2/heads\": 3/' m/config.json", "import hf m y", "3 heads"),
    (COPY + "sed -i 's/_size\": 8/_size\": 16/' m/config.json", "import hf m y", "no tensor"),
    (COPY + "echo '{}' >m/" + INDEX, "import hf m y", "names no files"),
    (COPY + "echo '{\"weight_map\": 3}' >m/" + INDEX, "import hf m y", "names no files"),
    (COPY + "echo '{\"weight_map\": {\"a\": \"../x\"}}' >m/" + INDEX, "import hf m y", "names no files"),
    (COPY, "import hf m m overwrite=true", "both out= and what is read"),
    (COPY, "eval toy_ner data=m checkpoint=m out=y", "write hf:m"),
    (DEEP + " >tokenizer.json", "import tokenizer tokenizer.json y", "not JSON"),
    ("mkdir m; : >m/model.pt; : >m/dict.txt", "import fairseq m y", "damaged, or not a file"),
    ("mkdir m", "import fairseq m y", "no file m/model.pt"),
    # Our own outputs, cut, changed, and written into.
    (MODEL + "head -c 3000 $T/model/model.pt >m/model.pt", "export hf m y", "damaged"),
    (MODEL + "rm m/model.pt", "translate m src=en tgt=sw", "no checkpoint at m"),
    (MODEL + "echo '[1]' >m/manifest.json", "export hf m y", "manifest.json is damaged"),
    (MODEL + DEEP + " >m/manifest.json", "quantize m y", "manifest.json is damaged"),
    (MODEL, "export hf m m", "both out= and what is read"),
    (MODEL, "quantize m m overwrite=true", "both out= and what is read"),
    (MODEL, "export hf m m/exported", "m, a finished output of 'pretrain'"),
    ("cp -r $T/shards s", "pretrain data=s out=s overwrite=true", "both out= and what is read"),
    ("cp -r $T/shards s", "pretrain data=s out=s/model", "s, a finished output of 'binarize'"),
    ("cp -r $T/raw raw", "vocab corpora.en=raw/mono/en.txt out=raw/mono", "raw, a finished output of 'toyworld'"),
    ("", "mine pair=en-sw src=$T/raw/mono/en.txt tgt=$T/raw/mono/sw.txt checkpoint=$T/vocab out=y", "no checkpoint at"),
    ("", "trim $T/model y corpora.en=nowhere", "nowhere"),
    ("", "pretrain data=$T/raw out=y", "no dict.txt in"),
    ("", "pretrain data=$T/shards out=y langs=fr", "unknown language in"),
    ("", "pretrain data=$T/shards out=y objectives.tlm.alpha=0.3", "no parallel shards"),
    ("", "pretrain data=$T/shards out=y init=$T/vocab", "no checkpoint at"),
    ("", "pretrain data=$T/shards out=y init=$T/model", "not 4"),
    ("", "pretrain data=$T/shards out=y model.max_positions=16", "with model.max_positions=16"),
    ("", "pretrain data=$T/shards out=$T/model train.updates=3", "is finished and was made with other settings"),
    ("cp -r $T/shards s; : >s/en/train.bin", "pretrain data=s out=y", "0 bytes"),
    ("", "finetune mt data=$T/raw out=y", "no dict.txt in"),
    ("", "finetune mt data=$T/shards out=y", "no parallel shards"),
    ("", "finetune mt data=$T/shards out=y directions=en-fr", "directions=en-fr"),
    ("", "finetune toy_ner data=$T/shards checkpoint=$T/model out=y", "no train rows"),
    ("", "eval toy_ner data=$T/shards checkpoint=$T/model out=y", "no rows of toy_ner"),
    ("", "translate $T/model src=en tgt=sw", "holds an encoder; valid: a model with a decoder"),
    ("", "umt data=$T/shards pairs=en-fr out=y", "no text in fr"),
    ("", "swap task=$T/model embeddings=$T/model out=y", "a directory with task.pt"),
    ("", "pretrain static data=$T/shards out=y", "an output of xling corpus nway"),
)  # fmt: skip


def write_model(folder: Path) -> None:
    """Write a model in the form of transformers, with one tensor; it is whole until a reader looks for the others."""
    import numpy as np
    from safetensors.numpy import save_file

    folder.mkdir(parents=True)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
    settings = {"model_type": "xlm-roberta", "max_position_embeddings": 30, **sizes}
    (folder / "config.json").write_text(json.dumps(settings))
    save_file({"embeddings": np.zeros((30, 8), np.float32)}, folder / "model.safetensors")


def prepare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Write what ``$M`` and ``$T`` name into ``folder``; return both variables."""
    variables = {"M": str(folder / "theirs"), "T": str(folder / "toy")}
    write_model(Path(variables["M"]))
    Path(variables["T"]).mkdir()
    monkeypatch.chdir(variables["T"])
    for stage in STAGES:
        assert cli.main(stage.split()) == 0
    return variables


def make_files(setup: str, folder: Path, variables: dict[str, str]) -> dict[str, int]:
    """Run the line that makes the files; return path -> bytes of all that is in ``folder`` then."""
    subprocess.run(["bash", "-c", setup or ":"], cwd=folder, env=os.environ | variables, check=True)
    return listed(folder)


def listed(folder: Path) -> dict[str, int]:
    """Return path -> bytes of everything in a folder."""
    return {str(path.relative_to(folder)): path.lstat().st_size for path in folder.rglob("*")}


def words_of(words: str, variables: dict[str, str]) -> list[str]:
    """Return the words of a command with the variables filled in."""
    for name, value in variables.items():
        words = words.replace(f"${name}", value)
    return words.split()
