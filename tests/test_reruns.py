"""What a command does when it is run again is one rule for all of them, and `manifest.up_to_date` decides it.

Equal settings and contents, however the paths are spelled: nothing is made. Other content, of the same size and time or
not, or another setting: exit 2, and the finished output stays as it is.
"""

from __future__ import annotations

import ast
import ctypes
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests import hostile
from tests.conftest import ROOT, TINY
from tests.corpora.crawl import document
from tests.corpora.crawl_index.dump import DUMP, Page, write_dump
from tests.corpora.test_sources import wet
from xling import cli
from xling.core.output import manifest
from xling.text.tokenizers.wordpiece import build_tokenizer
from xling.text.vocab import DICTIONARY, WORDPIECE

FEW = "checkpoint=w/model data=w/data fit.epochs=1"
STATIC = "data=w/nway updates=2 rows=8 model.dim=16 model.bits=10 model.sketch=0"
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
    ("import hf source=w/hf", "w/hf/model.safetensors", ""),
    ("corpus langid-eval text.en=w/en.txt text.sw=w/sw.txt", "w/sw.txt", "chars=50"),
    (
        f"corpus mono lang=sw source=cc-index:{DUMP} base_urls.cc=w/site cache=cache after_dedup=",
        "",
        "seed=7",
    ),
    ("corpus mono lang=sw source=wet:w/site/* base_urls.cc=w/site after_dedup=", "w/site/a.wet", "seed=7"),
    (
        "corpus codeswitch pair=en-sw mode=dictionary source=w/en.txt dictionaries.sw=w/muse.txt",
        "w/muse.txt",
        "seed=7",
    ),
    ("corpus select corpus=w/mono expr=chars>1", "w/mono/card.md", "expr=chars>2"),
    ("corpus lm lang=en text=w/en.txt pieces=60 order=2 prune=0", "w/en.txt", "max_chars=4000"),
    (
        "vocab base=w/base corpora.en=w/en.txt corpora.sw=w/sw.txt size=150",
        "w/base/wordpiece.json",
        "size=140",
    ),
    (f"label sib200 {FEW} lang=sw fit.switch.sw=w/muse.txt", "w/muse.txt", "seed=7"),
    (f"label sib200 {FEW} lang=sw text=w/sw.txt per_class=2", "w/sw.txt", "per_class=3"),
    (f"finetune sib200 {FEW}", "w/data/rows/sib200/en.train.jsonl", "fit.seed=7"),
    (f"pretrain static {STATIC} start.rounds=0 teacher.encoder=w/static", "w/static/static.json", "seed=7"),
    (f"pretrain static {STATIC} start.encoder=w/static", "w/static/static.json", "seed=7"),
)
# Made again without asking: command without out=, a file whose content changes, and a setting that changes.
REMADE = (
    ("analyse w/model suites=sib200 data=w/data rows=8", "w/data/rows/sib200/sw.test.jsonl", "rows=7"),
    ("analyse w/model suites=sib200 data=w/data rows=8 other=w/twin", "w/twin/model.pt", "rows=7"),
    (
        "watch w/trained suites=sib200 data=w/data fit.epochs=1",
        "w/data/rows/sib200/en.train.jsonl",
        "seeds=2",
    ),
)
# Tables and pages, made in seconds from what is kept, are replaced without asking.
REPLACED = {
    "corpora/mono/many.py", "eval/analysis/run.py", "eval/leaks/row_index.py", "eval/report/stage.py",
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
    _write_rows(root / "w")
    for folder, name in (
        (model, "model"),
        (model, "twin"),
        (model, "trained"),
        (vocab, "vocab"),
        (shards, "shards"),
    ):
        shutil.copytree(folder, root / "w" / name)
        if name not in ("shards", "trained"):
            (root / "w" / name / "manifest.json").unlink()
    (root / "w" / "hf" / "manifest.json").unlink()
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(root)
        for line in MADE.splitlines():
            assert cli.main(line.split()) == 0
    (root / "w" / "static" / "manifest.json").unlink()
    return root


MADE = f"""\
corpus parallel pair=en-sw source=moses:raw/para/en-sw out=w/sw
corpus parallel pair=en-de source=moses:raw/para/en-de out=w/de
corpus mono lang=en source=text:w/en.txt after_dedup= out=w/mono
corpus nway data=w/own langs=en,sw sources=own share=0.5 keep_texts=en out=w/nway
pretrain static {STATIC} start.rounds=0 out=w/static
finetune sib200 {FEW} out=w/tuned"""


def _write_rows(folder: Path) -> None:
    """Write a suite, a dictionary, a WordPiece vocabulary and a dump of Common Crawl."""
    rows = folder / "data" / "rows" / "sib200"
    rows.mkdir(parents=True)
    for lang in ("en", "sw"):
        texts = (folder / f"p.{lang}").read_text("utf-8").splitlines()
        for start, split in ((0, "train"), (20, "dev"), (30, "test")):
            some = enumerate(texts[start : start + 10], start)
            values = [
                {"id": f"{n}", "fields": {"text": x}, "label": ("politics", "sports")[n % 2]} for n, x in some
            ]
            (rows / f"{lang}.{split}.jsonl").write_text(
                "".join(f"{json.dumps(v)}\n" for v in values), "utf-8"
            )
    shutil.copy(folder.parent / "raw" / "dict" / "en-sw.tsv", folder / "muse.txt")
    (folder / "base").mkdir()
    pieces = [f"{mark}{letter}" for mark in ("", "##") for letter in "abcdefghijklmnopqrstuvwxyz"]
    build_tokenizer(pieces, True, None, True).save(str(folder / "base" / WORDPIECE))
    (folder / "base" / DICTIONARY).write_text("".join(f"{name} 1\n" for name in pieces), "utf-8")
    write_dump(folder / "site", [Page(f"https://{i}.example/", document("sw", i)) for i in range(9)])
    (folder / "site" / "a.wet").write_bytes(b"".join(wet(*(document("sw", i) for i in range(9)))))


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
    elif path.suffix == ".json":
        first, second, third, *rest = before.split(b"\n")
        path.write_bytes(b"\n".join([first, third, second, *rest]))
    elif path.suffix == ".bin":
        path.write_bytes(before[2:20] + before[:2] + before[20:])
    else:
        first, second, *rest = before.split(b"\n")
        path.write_bytes(b"\n".join([second, first, *rest]))
    assert path.read_bytes() != before and path.stat().st_size == len(before)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    if (record := _record_of(path)).is_file():  # as another run would have written it
        old, new = hashlib.sha256(before).hexdigest(), manifest.sha256(path)
        record.write_text(record.read_text().replace(old, new))


def with_setting(words: list[str], setting: str) -> list[str]:
    """The words of a command with one setting more, or with another value of it."""
    name = setting.partition("=")[0]
    return [each for each in words if each.partition("=")[0] != name] + [setting] * bool(setting)


def _record_of(path: Path) -> Path:
    """The manifest of the output that a file belongs to, or a path where none is."""
    records = [folder / "manifest.json" for folder in path.parents[:2]]
    return next(filter(Path.is_file, records), records[0])


@pytest.fixture
def read_files() -> Iterator[set[str]]:
    """The files that Python opens for reading; the interpreter keeps its hook."""
    files: set[str] = set()
    is_over = False

    def note(event: str, args: tuple[object, ...]) -> None:
        if event == "open" and not is_over and isinstance(args[0], str | bytes) and args[1] in ("r", "rb"):
            files.add(os.path.realpath(os.fsdecode(args[0])))

    sys.addaudithook(note)
    yield files
    is_over = True


def check_inputs(out: Path, read_files: set[str], folder: Path) -> None:
    """Check that each file of the user's that was read is an input, by which a rerun tells that it has changed."""
    inputs = [os.path.realpath(each) for each in manifest.read(out).inputs]
    own = {
        each
        for each in read_files
        if Path(each).is_relative_to(folder) and not each.endswith("manifest.json") and "/." not in each
    }
    assert not [each for each in own if not any(Path(each).is_relative_to(given) for given in inputs)]


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
    read_files: set[str],
) -> None:
    shutil.copytree(made / "w", tmp_path / "w")
    monkeypatch.chdir(tmp_path)
    words = [*command.split(), "out=o/out"]
    assert cli.main(words) == 0, capsys.readouterr().err
    if not command.startswith("corpus mono") and not command.startswith(
        "corpus parallel"
    ):  # they keep a plan
        check_inputs(Path("o/out"), read_files, tmp_path / "w")
    record = (tmp_path / "o/out/manifest.json").read_bytes()
    times = {each: each.stat().st_mtime_ns for each in Path("o/out").rglob("*")}

    def stays() -> None:
        assert {each: each.stat().st_mtime_ns for each in Path("o/out").rglob("*")} == times
        assert Path("o/out/manifest.json").read_bytes() == record

    def refused(more: str = "") -> None:
        capsys.readouterr()
        changed = with_setting(words, more)
        assert cli.main(changed) == 2
        assert "add overwrite=true to replace it" in capsys.readouterr().err
        assert cli.main(["why-rerun", *changed]) == 0
        assert "was made with other settings or inputs" in capsys.readouterr().out
        stays()

    assert cli.main([*command.replace("w/", f"{tmp_path}/./w/").split(), "out=o/out"]) == 0
    stays()
    if file:
        path, signed = Path(file), _record_of(Path(file))
        content, signature = path.read_bytes(), signed.read_bytes() if signed.is_file() else b""
        other_content(path)
        refused()
        path.write_bytes(content)
        if signature:
            signed.write_bytes(signature)
    if setting:
        refused(setting)
    assert cli.main(words) == 0, "what was before is up to date again"
    stays()


@pytest.mark.parametrize(("command", "file", "setting"), REMADE, ids=[each[0][:70] for each in REMADE])
def test_a_table_is_made_again_of_what_has_changed_alone(
    command: str,
    file: str,
    setting: str,
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read_files: set[str],
) -> None:
    shutil.copytree(made / "w", tmp_path / "w")
    monkeypatch.chdir(tmp_path)
    record = Path("o/out/manifest.json")

    def made_by(*words: str) -> tuple[bytes, int]:
        assert cli.main([*words, "out=o/out"]) == 0
        return record.read_bytes(), record.stat().st_mtime_ns

    first = made_by(*command.split())
    check_inputs(Path("o/out"), read_files, tmp_path / "w")
    assert made_by(*command.replace("w/", f"{tmp_path}/./w/").split()) == first
    assert made_by(*with_setting(command.split(), setting)) != first
    second = made_by(*command.split())
    other_content(Path(file))
    assert made_by(*command.split()) != second


MORE = (
    "toyworld num_docs=20 num_pairs=20 num_ner=9 num_nli=9",
    f"eval sib200 {FEW}",
    "corpus links data=w/own langs=en,sw sources=own",
    "mine pair=en-sw src=w/p.en tgt=w/p.sw checkpoint=w/model",
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], None]]:
    """What mounts an empty disk of so many kB at ``o``; mounting takes the rights of the administrator."""
    libc, place = ctypes.CDLL(None, use_errno=True), os.fsencode(tmp_path / "o")
    (tmp_path / "o").mkdir()

    def mount(kilobytes: int) -> None:
        libc.umount2(place, 2)
        if libc.mount(b"none", place, b"tmpfs", 0, f"size={kilobytes}k".encode()):
            pytest.skip(f"no disk of {kilobytes} kB: {os.strerror(ctypes.get_errno())}")

    yield mount
    libc.umount2(place, 2)


@pytest.mark.parametrize("command", [*(each[0] for each in (*WALKED, *REMADE)), *MORE])
def test_a_full_disk_is_named_and_holds_no_half_of_an_output(
    command: str,
    made: Path,
    small_disk: Callable[[int], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "w").symlink_to(made / "w")
    monkeypatch.chdir(tmp_path)
    for kilobytes in (4, 16, 128, 16_384):
        small_disk(kilobytes)
        hostile.attempt()
        capsys.readouterr()
        if not (code := cli.main([*command.split(), "out=o/out"])):
            break
        (*_, line) = capsys.readouterr().err.splitlines()
        assert code == 2 and "No space left on device; fix: free space on that disk (mounted at" in line
        assert not Path("o/out/manifest.json").exists() and not [*Path("o").glob("out/**/scores.json")]
    assert kilobytes > 4 and Path("o/out").is_dir(), "it ends where there is room, and needs some"


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
