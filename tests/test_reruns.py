"""What a command does when it is run again is one rule for all of them, and `manifest.up_to_date` decides it.

Equal settings and contents, however the paths are spelled: nothing is made. Other content, of the same size and time or
not, or another setting: exit 2, and the finished output stays as it is.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.conftest import ROOT, TINY
from xling import cli
from xling.core.output import manifest

# Command without out=, the file whose content changes, and a setting that changes; none where there is no setting.
WALKED = (
    ("corpus mono lang=en source=text:w/en.txt", "w/en.txt", "seed=7"),
    ("corpus parallel pair=en-sw source=moses:w/p", "w/p.sw", "seed=7"),
    ("corpus parallel pair=en-sw source=po:w/p.po", "w/p.po", "seed=7"),
    ("corpus parallel pair=en-sw source=xliff:w/p.xlf", "w/p.xlf", "seed=7"),
    ("corpus parallel pair=en-sw source=i18n:w/p.en.json+w/p.sw.json", "w/p.sw.json", "seed=7"),
    ("corpus mono lang=en source=html:w/p.html after_dedup=", "w/p.html", "seed=7"),
    ("corpus nway data=w/own langs=en,sw sources=own share=0.5", "w/own/p.sw", "min_count=3"),
    ("corpus halves pair=en-sw files=w/p.en,w/p.sw", "w/p.en", ""),
    ("corpus langid-train text.luo=w/en.txt text.om=w/sw.txt", "w/sw.txt", "max_chars=4000"),
    ("corpus bitext pair=en-sw src=w/en.txt tgt=w/sw.txt", "w/sw.txt", "threshold=0.2"),
    ("align pair=en-sw src=w/p.en tgt=w/p.sw", "w/p.sw", "max_words=3"),
    ("bli pair=en-sw corpora.en=w/en.txt corpora.sw=w/sw.txt", "w/en.txt", "window=2"),
    ("vocab corpora.en=w/en.txt corpora.sw=w/sw.txt size=150 coverage=1.0", "w/en.txt", "alpha=0.4"),
    ("binarize vocab=w/vocab corpora.en=w/en.txt corpora.sw=w/sw.txt", "w/sw.txt", "valid_docs=3"),
    ("pretrain data=w/shards train.updates=1 " + " ".join(TINY), "w/shards/en/train.bin", "seed=7"),
    ("quantize checkpoint=w/model", "w/model/model.pt", ""),
    ("trim checkpoint=w/model corpora.en=w/en.txt", "w/en.txt", "least=2"),
    ("export hf checkpoint=w/model", "w/model/model.pt", "pooling=cls"),
    ("merge checkpoints=w/model,w/twin", "w/twin/model.pt", "weights=1,2"),
    ("import hf source=w/hf", "w/hf/model.safetensors", ""),
)
# Tables and pages, made in seconds from what is kept, are replaced without asking.
REPLACED = {
    "corpora/mono/overview.py", "eval/analysis/run.py", "eval/leaks/row_index.py", "eval/report/stage.py",
    "xling/language/closing_report.py", "xling/language/survey.py",
    "eval/tables/publish.py", "xling/papers/grid.py", "xling/papers/watch.py",
}  # fmt: skip
# Modules that publish what another module has asked about.
ASKED_BY = {
    "xling/training/train.py": "xling/training/plan.py",
    "corpora/mono/publish_phase.py": "corpora/mono/one.py",
    "corpora/parallel/publish_phase.py": "corpora/parallel/build.py",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, model: Path, vocab: Path, shards: Path) -> Path:
    """Text, pairs, shards and models without manifests: files of the user's own."""
    root = tmp_path_factory.mktemp("made")
    words = ["num_docs=60", "num_pairs=60", "num_ner=9", "num_nli=9"]
    assert cli.main(["toyworld", f"out={root}/raw", *words]) == 0
    assert cli.main(["export", "hf", str(model), f"{root}/w/hf"]) == 0
    for source, name in (("mono/en.txt", "en.txt"), ("mono/sw.txt", "sw.txt"), ("para/en-sw.en", "p.en")):
        shutil.copy(root / "raw" / source, root / "w" / name)
    shutil.copy(root / "raw" / "para" / "en-sw.sw", root / "w" / "p.sw")
    _write_formats(root / "w")
    for folder, name in ((model, "model"), (model, "twin"), (vocab, "vocab"), (shards, "shards")):
        shutil.copytree(folder, root / "w" / name)
        if name != "shards":
            (root / "w" / name / "manifest.json").unlink()
    (root / "w" / "hf" / "manifest.json").unlink()
    return root


def _write_formats(folder: Path) -> None:
    """Write the pairs in other formats; each file begins with two lines that mean nothing, which may change places."""
    sides = {lang: (folder / f"p.{lang}").read_text("utf-8").splitlines() for lang in ("en", "sw")}
    pairs = list(zip(*sides.values(), strict=True))
    po = "".join(f"msgid {json.dumps(src)}\nmsgstr {json.dumps(tgt)}\n\n" for src, tgt in pairs)
    (folder / "p.po").write_text(f'# a\n# b\nmsgid ""\nmsgstr "Language: sw\\n"\n\n{po}', "utf-8")
    units = "".join(
        f"<trans-unit><source>{src}</source><target>{tgt}</target></trans-unit>" for src, tgt in pairs
    )
    file = f'<file source-language="en" target-language="sw">{units}</file>'
    (folder / "p.xlf").write_text(f"<!-- a -->\n<!-- b -->\n{file}", "utf-8")
    (folder / "own").mkdir()
    for lang, texts in sides.items():
        (folder / f"p.{lang}.json").write_text(f"\n \n{json.dumps(dict(enumerate(texts)))}", "utf-8")
        shutil.copy(folder / f"p.{lang}", folder / "own")
    page = "".join(f"<p>{text}</p>" for text in sides["en"])
    (folder / "p.html").write_text(f"<!-- a -->\n<!-- b -->\n<body>{page}</body>", "utf-8")


def other_content(path: Path) -> None:
    """Change what a file holds, and neither its size nor its time."""
    before, facts = path.read_bytes(), path.stat()
    if path.suffix == ".pt":
        state = torch.load(path, weights_only=True)
        next(iter(state["weights"].values())).mul_(2)
        torch.save(state, path)
    elif path.suffix == ".safetensors":
        save_file({name: 2 * tensor for name, tensor in load_file(path).items()}, path, {"format": "pt"})
    elif path.suffix == ".bin":
        path.write_bytes(before[2:20] + before[:2] + before[20:])
    else:
        first, second, *rest = before.split(b"\n")
        path.write_bytes(b"\n".join([second, first, *rest]))
    assert path.read_bytes() != before and path.stat().st_size == len(before)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    if (record := path.parents[1] / "manifest.json").is_file():  # as another binarize would have written it
        old, new = hashlib.sha256(before).hexdigest(), manifest.sha256(path)
        record.write_text(record.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("command", "file", "setting"), WALKED, ids=[" ".join(each[0].split()[:4]) for each in WALKED]
)
def test_a_rerun_makes_nothing_or_is_refused(
    command: str,
    file: str,
    setting: str,
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(made / "w", tmp_path / "w")
    monkeypatch.chdir(tmp_path)
    path, words = Path(file), [*command.split(), "out=o/out"]
    assert cli.main(words) == 0, capsys.readouterr().err
    record = (tmp_path / "o/out/manifest.json").read_bytes()
    times = {each: each.stat().st_mtime_ns for each in Path("o/out").rglob("*")}

    def stays() -> None:
        assert {each: each.stat().st_mtime_ns for each in Path("o/out").rglob("*")} == times
        assert Path("o/out/manifest.json").read_bytes() == record

    def refused(*more: str) -> None:
        capsys.readouterr()
        assert cli.main([*words, *more]) == 2
        assert "add overwrite=true to replace it" in capsys.readouterr().err
        assert cli.main(["why-rerun", *words, *more]) == 0
        assert "was made with other settings or inputs" in capsys.readouterr().out
        stays()

    for respelled in (command, command.replace("w/", "./w/"), command.replace("w/", f"{tmp_path}/w/")):
        assert cli.main([*respelled.split(), "out=o/out"]) == 0
        stays()
    content, signed = path.read_bytes(), path.parents[1] / "manifest.json"
    signature = signed.read_bytes() if signed.is_file() else b""
    other_content(path)
    refused()
    if path.suffix in (".txt", ".en", ".sw"):
        path.write_bytes(content + content.split(b"\n")[0] + b"\n")
        refused()
    path.write_bytes(content)
    if signature:
        signed.write_bytes(signature)
    if setting:
        refused(setting)
    assert cli.main(words) == 0, "what was before is up to date again"
    stays()


def test_every_module_that_publishes_asks_the_one_function_first() -> None:
    asking = {"up_to_date", "finished", "is_published", "published_plan", "published_manifest"}
    replacing = set()
    for path in [p for folder in ("xling", "corpora", "eval") for p in sorted((ROOT / folder).rglob("*.py"))]:
        name = str(path.relative_to(ROOT))
        if name.startswith(("xling/corpora/", "xling/eval/", "xling/core/")):
            continue
        calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
        named = {
            (n.func.attr if isinstance(n.func, ast.Attribute) else getattr(n.func, "id", "")): n
            for n in calls
        }
        publishes = any(ast.unparse(call.func) in ("manifest.publish", "publish") for call in calls)
        if publishes and name not in ASKED_BY:
            assert asking & named.keys(), f"{name} publishes without asking manifest.up_to_date"
        if any(k.arg == "replaceable" for call in calls for k in call.keywords):
            replacing.add(name)
    assert replacing == REPLACED
    for name, other in ASKED_BY.items():
        assert "up_to_date" in (ROOT / other).read_text("utf-8") or "finished(" in (ROOT / other).read_text(
            "utf-8"
        ), name
