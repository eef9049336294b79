"""A dry run plans what a build makes: the same parts, nothing read or written."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from tests.corpora.crawl import write_crawl
from xling import cli
from xling.core.commands.runner import run_local, run_part
from xling.core.settings import config
from xling.corpora.mono import MonoConfig, phases
from xling.corpora.mono.build import resolve


def settings(out: Path, lang: str, source: str, **changes: Any) -> MonoConfig:
    data = {"lang": lang, "out": str(out), "source": source, "part_mb": 0.03, "keep_work": True}
    return config.from_dict(MonoConfig, data | {"settings": {"length": {"min_chars": "100"}}} | changes)


def estimate(cfg: MonoConfig) -> dict[str, Any]:
    answer = run_local("corpus mono", config.from_dict(MonoConfig, config.to_dict(cfg) | {"dry_run": True}))
    return {row["phase"]: row for row in answer.data["phases"]}


def test_parts_are_those_of_the_build(tmp_path: Path) -> None:
    cfg = settings(tmp_path / "sw", "sw", write_crawl(tmp_path / "crawl"))
    before = sorted(tmp_path.rglob("*"))
    planned = estimate(cfg)
    assert sorted(tmp_path.rglob("*")) == before
    run_local("corpus mono", cfg)
    root = resolve(cfg).workspace.root
    parts = {path.name: len(list(path.iterdir())) for path in root.iterdir() if path.is_dir()}
    assert {name: row["parts"] for name, row in planned.items()} == parts
    assert all(row["core_hours"] > 0 and row["memory_mb"] > 0 for row in planned.values())


def test_the_routing_of_many_languages(tmp_path: Path) -> None:
    cfg = settings(tmp_path / "out", "sw,ar", write_crawl(tmp_path / "crawl"))
    planned = estimate(cfg)
    run_part("corpus mono", cfg, "plan", 0)
    (route,) = (phase for phase in phases(cfg) if phase.name == "route")
    for index in range(route.num_parts):
        run_part("corpus mono", cfg, "route", index)
    assert planned["route"]["parts"] == route.num_parts
    assert planned["near"]["parts"] == 2  # all bands of a language with one part at once
    run_local("corpus mono", cfg)
    reads = [resolve(cfg.for_lang(lang)).workspace.root / "read" for lang in resolve(cfg).langs]
    assert planned["read"]["parts"] == sum(len(list(read.iterdir())) for read in reads)
    assert not [path for read in reads for path in read.glob("*/docs.parquet")]


@pytest.mark.parametrize("lang", ["sw", "all"])
def test_a_listing_is_enough_and_costs_grow_with_it(
    tmp_path: Path, lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cc" / "crawl-data" / "CC-MAIN-2024-22"
    folder.mkdir(parents=True)
    told = []
    for num in (100, 1000):
        listing = "".join(f"wet/CC-MAIN-{i:05d}.warc.wet.gz\n" for i in range(num))
        (folder / "wet.paths.gz").write_bytes(gzip.compress(listing.encode()))
        words = ["source=cc:CC-MAIN-2024-22", "size=0", f"base_urls.cc={tmp_path}/cc", f"out={tmp_path}/x"]
        assert cli.main(["corpus", "mono", f"lang={lang}", *words, "--dry-run"]) == 0
        said = capsys.readouterr().out
        assert f"{num:,} files, {num * 75 * 1.048576 / 1000:,.0f} GB as stored" in said
        together = said.splitlines()[-1].split()
        told.append([float(cell.replace(",", "")) for cell in together[1:]])
    small, large = told
    for column in (1, 2, 3):  # core-hours, bytes read, bytes written
        assert 8 < large[column] / small[column] < 11
    assert large[4] < 2048  # MB: at any size
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cc"]


def test_a_dry_run_is_never_queued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lang=sw", f"source={write_crawl(tmp_path / 'crawl')}", f"out={tmp_path}/sw", "dry_run=true"]
    assert cli.main(["corpus", "mono", *words, "cluster=slurm", "slurm.mem_gb=3"]) == 0
    assert "core-hours" in capsys.readouterr().out
    assert not (tmp_path / "sw").exists()


def test_small_and_plain_files_are_sized_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("Habari za leo.\n" * 400)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"Habari\n", mtime=0))
    words = [f"source=text:{tmp_path}/*.txt*", f"out={tmp_path}/x", "--dry-run"]
    assert cli.main(["corpus", "mono", "lang=sw", *words]) == 0
    assert capsys.readouterr().out.startswith("sw: 2 files, 6.0 kB as stored, about 6.1 kB of text; ")
