"""One bit that is turned in any file of a finished output is found by every command that reads the output."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests import hostile
from tests.conftest import TINY
from xling import cli
from xling.core.commands import runner

# Output, a command that reads it, and how a file is given where the command reads files alone.
READ = (
    ("vocab", "binarize vocab=here/vocab corpora.en=en.txt"),
    ("shards", "pretrain data=here/shards train.updates=1 " + " ".join(TINY)),
    ("model", "export hf checkpoint=here/model"),
    ("model", "quantize checkpoint=here/model"),
    ("model", "eval toy_ner data=. checkpoint=here/model"),
    ("model", "finetune toy_ner data=. checkpoint=here/model"),
    ("model", "pretrain data=shards train.updates=1 init=here/model " + " ".join(TINY)),
    ("raw/mono/en.txt", "vocab corpora.en=here/raw/mono/en.txt size=99"),
    ("raw/mono/en.txt", "corpus mono lang=en source=text:here/raw/mono/en.txt"),
    ("raw/mono/en.txt", "corpus mono lang=en source=text:here/raw/mono/*"),
    ("raw/para/en-sw.sw", "corpus parallel pair=en-sw source=moses:here/raw/para/en-sw"),
    ("raw/para/en-sw.sw", "align pair=en-sw src=here/raw/para/en-sw.en tgt=here/raw/para/en-sw.sw"),
    ("raw/mono/en.txt", "bli pair=en-sw corpora.en=here/raw/mono/en.txt corpora.sw=here/raw/mono/sw.txt"),
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, model: Path, vocab: Path, shards: Path) -> Path:
    """Finished outputs of four stages in one folder."""
    root = tmp_path_factory.mktemp("finished")
    sizes = ["num_docs=60", "num_pairs=20", "num_ner=9", "num_nli=9"]
    assert cli.main(["toyworld", f"out={root}/raw", *sizes]) == 0
    for name, folder in (("model", model), ("vocab", vocab), ("shards", shards)):
        shutil.copytree(folder, root / name)
    shutil.copy(root / "raw" / "mono" / "en.txt", root / "en.txt")
    return root


@pytest.mark.parametrize(
    ("output", "command"), READ, ids=[f"{each[0]}-{each[1].split()[0]}" for each in READ]
)
def test_a_turned_bit_is_refused_by_its_readers(
    output: str,
    command: str,
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(finished, tmp_path / "here")
    shutil.copytree(finished / "shards", tmp_path / "shards")
    shutil.copy(finished / "en.txt", tmp_path / "en.txt")
    monkeypatch.chdir(tmp_path)
    draw, before = random.Random(output + command), sorted(tmp_path.iterdir())
    place = Path("here", output)
    files = [p for p in sorted(place.rglob("*")) if p.is_file() and p.name != "manifest.json"] or [place]
    for path in files:
        whole = path.read_bytes()
        if not whole:
            continue
        content = bytearray(whole)
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        hostile.attempt()
        assert cli.main([*command.split(), "out=out"]) == 2, path
        said = capsys.readouterr().err
        assert f"{path.name} was changed or damaged after" in said and "fix: copy it again" in said, path
        path.write_bytes(whole)
    assert [path for path in sorted(tmp_path.iterdir()) if not path.name.startswith(".out")] == before


def test_what_is_asked_of_a_corpus_is_not_answered_from_a_changed_one(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["corpus", "mono", "lang=en", f"source=text:{finished}/en.txt", "out=en"]) == 0
    (path,) = Path("en").glob("shards/*.parquet")
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 4
    path.write_bytes(content)
    for command in (
        "corpus select en chars>1 out=o",
        "vocab corpora.en=en size=99 out=o",
    ):
        assert cli.main(command.split()) == 2, command
        assert "was changed or damaged after 'corpus mono' wrote it" in capsys.readouterr().err, command


# Command whose last phase fails, and the phase.
KILLED = (
    ("corpus mono lang=en source=text:here/raw/mono/en.txt", "publish"),
    ("corpus parallel pair=en-sw source=moses:here/raw/para/en-sw", "publish"),
    ("align pair=en-sw src=here/raw/para/en-sw.en tgt=here/raw/para/en-sw.sw", "publish"),
)


@pytest.mark.parametrize(("command", "last"), KILLED, ids=[each[0].partition("=")[0] for each in KILLED])
def test_a_turned_bit_in_what_a_killed_build_left_is_told(
    command: str,
    last: str,
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "here").symlink_to(finished)
    monkeypatch.chdir(tmp_path)
    words, run_part = [*command.split(), "out=out"], runner.run_part

    def killed(name: str, cfg: Any, phase: str, index: int) -> Any:
        if phase == last:
            raise KeyboardInterrupt
        return run_part(name, cfg, phase, index)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "run_part", killed)
        assert cli.main([*words]) == 130
    draw = random.Random(command)
    files = [path for path in sorted(Path(".out.work").rglob("*")) if path.is_file()]
    assert files
    for path in [each for each in files if each.stat().st_size]:
        whole = path.read_bytes()
        content = bytearray(whole)
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        hostile.attempt()
        capsys.readouterr()
        assert cli.main([*words]) == 2, path
        said = capsys.readouterr().err
        assert f"{path.name} was changed or damaged after it was written" in said and "fix: delete" in said
        path.write_bytes(whole)
    assert cli.main([*words]) == 0
