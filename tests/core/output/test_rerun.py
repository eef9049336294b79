"""A finished output is never replaced unasked and never made twice, however paths and folders change."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from xling import cli
from xling.core.errors import UserError
from xling.core.output import manifest, source_version
from xling.core.output.rerun import NO_EFFECT_METADATA, differences


@dataclass(frozen=True)
class Train:
    lr: float = 0.1
    log_every: int = field(default=10, metadata=NO_EFFECT_METADATA)


@dataclass(frozen=True)
class Settings:
    data: str
    out: str
    corpora: dict[str, tuple[str, ...]] = field(default_factory=dict)
    dictionaries: str = ""
    updates: int = 2
    train: Train = field(default_factory=Train)


class Stage:
    """A stage that counts how often it really runs."""

    def __init__(self) -> None:
        self.num_runs = 0

    def run(self, cfg: Settings) -> manifest.Manifest:
        texts = [Path(p) for paths in cfg.corpora.values() for p in paths]
        if len(texts) == 1 and "*" in texts[0].name:
            texts = sorted(texts[0].parent.glob(texts[0].name))
        tables = [Path(cfg.dictionaries.partition(":")[2])] if cfg.dictionaries else []
        inputs = [Path(cfg.data), *texts, *tables]
        if done := manifest.up_to_date(Path(cfg.out), "demo", cfg, inputs):
            return done
        with manifest.publish(Path(cfg.out), "demo", cfg, inputs) as made:
            (made.path / "model.pt").write_text(f"weights {self.num_runs}")
        self.num_runs += 1
        return manifest.read(Path(cfg.out))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with text, a dictionary and a published data set."""
    monkeypatch.chdir(tmp_path)
    Path("text").mkdir()
    for lang in ("en", "sw"):
        Path(f"text/{lang}.txt").write_text(f"some {lang}")
    Path("en-sw.tsv").write_text("dog\tmbwa\n")
    with manifest.publish(Path("data"), "shards", {}) as made:
        (made.path / "train.bin").write_text("tokens")
    return tmp_path


def settings(**more: object) -> Settings:
    corpora = {"en": ("text/en.txt",), "sw": ("text/sw.txt",)}
    return Settings(
        **({"data": "data", "out": "model", "corpora": corpora, "dictionaries": "en-sw:en-sw.tsv"} | more)
    )  # type: ignore[arg-type]


def spelled(path: str, draw: random.Random) -> str:
    """The same path in another spelling."""
    return draw.choice(
        [path, str(Path(path).absolute()), f"./{path}", os.path.relpath(Path(path).absolute())]
    )


def test_two_hundred_reruns_delete_no_weights_and_train_nothing_twice(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, stage, out = random.Random(1), Stage(), "model"
    first = stage.run(settings())
    weights = (world / out / "model.pt").read_bytes()
    base = world
    for _ in range(200):
        action = draw.choice(
            ["respell", "move model", "move all", "upgrade", "log", "setting", "swap", "content"]
        )
        cfg = settings(
            data=spelled("data", draw),
            out=spelled(out, draw),
            corpora={lang: (spelled(f"text/{lang}.txt", draw),) for lang in ("en", "sw")},
            dictionaries=f"en-sw:{spelled('en-sw.tsv', draw)}",
        )
        wrong: Callable[[], object] | None = None
        if action == "move model":
            new = f"model{draw.randrange(10**9)}"
            shutil.move(out, new)
            out = new
            cfg = settings(out=out)
        elif action == "move all":
            new_base = base.with_name(f"world{draw.randrange(10**9)}")
            monkeypatch.chdir("/")
            shutil.move(base, new_base)
            base = new_base
            monkeypatch.chdir(base)
            cfg = settings(out=out)
        elif action == "upgrade":
            release = f"{draw.randrange(100)}.0"
            monkeypatch.setattr(source_version, "full_version", lambda release=release: release)
        elif action == "log":
            cfg = settings(out=out, train=Train(log_every=draw.randrange(100)))
        elif action == "setting":
            cfg = settings(out=out, updates=draw.randrange(3, 99))
            wrong = lambda: None  # noqa: E731
        elif action == "swap":
            cfg = settings(out=out, corpora={"sw": ("text/en.txt",), "en": ("text/sw.txt",)})
            wrong = lambda: None  # noqa: E731
        elif action == "content":
            Path("text/sw.txt").write_text("other")
            wrong = lambda: Path("text/sw.txt").write_text("some sw")  # noqa: E731
        if wrong:
            with pytest.raises(UserError, match="overwrite=true"):
                stage.run(cfg)
            wrong()
        else:
            assert stage.run(cfg).files == first.files
        assert (stage.num_runs, Path(out, "model.pt").read_bytes()) == (1, weights), action


def test_another_version_is_told_and_changes_nothing(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage, made_by = Stage(), source_version.full_version()
    stage.run(settings())
    monkeypatch.setattr(source_version, "full_version", lambda: "9.9.9")
    capsys.readouterr()
    stage.run(settings())
    assert capsys.readouterr().err == f"xling: model is kept: made by xling {made_by}, this is 9.9.9\n"
    assert stage.num_runs == 1


def test_a_glob_and_a_folder_name_the_files_they_held(world: Path) -> None:
    stage = Stage()
    stage.run(settings(corpora={"en": ("text/*.txt",)}))
    stage.run(settings(corpora={"en": (str(world / "text" / "*.txt"),)}))
    assert stage.num_runs == 1
    Path("text/zz.txt").write_text("one more")
    with pytest.raises(UserError, match=r"text/zz.txt has other content"):
        stage.run(settings(corpora={"en": ("text/*.txt",)}))


def test_a_setting_that_a_newer_version_added_counts_with_its_default() -> None:
    cfg = settings()
    old = {"data": "data", "out": "model", "updates": 2, "train": {"lr": 0.1}}
    new = {**old, "train": {"lr": 0.1, "log_every": 10}, "dictionaries": "", "out": "elsewhere"}
    assert differences((old, {}), (new, {}), cfg) == []
    new["dictionaries"] = "en-sw:x.tsv"
    assert differences((old, {}), (new, {}), cfg) == ["dictionaries=, now en-sw:x.tsv"]


def test_a_setting_that_is_no_more_counts_only_if_it_changed_the_output() -> None:
    cfg, new = settings(), {"data": "data", "updates": 2}
    assert differences(({**new, "model": {"compile": False}}, {}), (new, {}), cfg) == []
    other = {**new, "model": {"compile": True}}
    assert differences((other, {}), (new, {}), cfg) == ["model.compile=True, now False"]


def test_the_command_says_what_differs_and_overwrites_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["num_docs=1", "num_pairs=8", "num_ner=8", "langs=en,de"]
    words = ["toyworld", "out=toy", *small, "num_nli=10"]
    assert cli.main(["why-rerun", *words]) == 0
    assert "toy does not exist yet" in capsys.readouterr().out and not Path("toy").exists()
    assert cli.main(words) == 0
    before = manifest.read(Path("toy"))
    assert cli.main(["why-rerun", "toyworld", f"out={tmp_path}/toy", *words[2:]]) == 0
    assert "nothing would run" in capsys.readouterr().out
    other = ["toyworld", "out=toy", *small, "num_nli=15"]
    assert cli.main(["why-rerun", *other]) == 0
    assert "num_nli=10, now 15" in capsys.readouterr().out
    assert cli.main(other) == 2
    assert "overwrite=true" in capsys.readouterr().err
    assert manifest.read(Path("toy")) == before
    assert cli.main([*other, "overwrite=true"]) == 0
    assert manifest.read(Path("toy")).config["num_nli"] == 15
    assert manifest.OVERWRITE_VARIABLE not in os.environ and manifest.ONLY_WHY_VARIABLE not in os.environ
    assert cli.main(["why-rerun", "eval", "panx"]) == 2
