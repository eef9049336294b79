"""Data sets of the hub and of our own: Parquet, documented names, scripts, the toy world."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import zstandard

from tests.corpora.reading import TEXTS, read
from xling.core.errors import UserError
from xling.corpora.sources import hf


def hub_repository(root: Path, configs: dict[str, str], suffix: str = "parquet") -> Path:
    """A folder as a hub repository of data files is: a card that names the configurations, and their files."""
    card = "".join(
        f'- config_name: "{name}"\n  data_files:\n  - split: train\n    path: {folder}/*.{suffix}\n'
        for name, folder in configs.items()
    )
    for folder in configs.values():
        (root / folder).mkdir(parents=True)
        frame = pl.DataFrame({"text": [f"{folder} {text}" for text in TEXTS], "url": ["u"] * 4})
        if suffix == "parquet":
            frame.write_parquet(root / folder / "train-0.parquet")
        else:
            (root / folder / "train-0.json.gz").write_bytes(gzip.compress(frame.write_ndjson().encode()))
    (root / "README.md").write_text(f"---\nconfigs:\n{card}---\n", encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("name", "lang", "wanted", "other", "suffix"),
    [
        ("wikipedia", "sw", "20231101.sw", "20231101.so", "parquet"),
        ("wikipedia", "nb", "20231101.no", "20231101.nb", "parquet"),
        ("mc4", "sw", "sw", "so", "json.gz"),
        ("mc4", "he", "iw", "he", "json.gz"),
        ("fineweb-2", "sw", "swh_Latn", "som_Latn", "parquet"),
        ("fineweb-2", "zh", "cmn_Hani", "zho_Hans", "parquet"),
    ],
)
def test_a_documented_name_picks_its_configuration(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    lang: str,
    wanted: str,
    other: str,
    suffix: str,
) -> None:
    # The hub's place is taken by a folder of the same layout: names, configurations and files, no network.
    root = hub_repository(tmp_path / "hub", {wanted: "ours", other: "theirs"}, suffix)
    monkeypatch.setitem(hf._KNOWN_DATASETS, name, replace(hf._KNOWN_DATASETS[name], path=str(root)))
    docs, _ = read(f"hf:{name}", lang=lang)
    assert [doc.text for doc in docs] == [f"ours {text}" for text in TEXTS]
    assert docs[0].id == f"hf.hub-{wanted}.train/0/0"
    docs, _ = read(f"hf:{name}:{other}:train", lang=lang)
    assert docs[0].text == f"theirs {TEXTS[0]}"


@pytest.mark.parametrize(
    ("name", "file"),
    [("madlad-400", "data/sw/sw_clean_0000.jsonl.gz"), ("oscar", "sw_meta/sw_meta.jsonl.zst")],
)
def test_a_documented_name_reads_the_files_behind_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str
) -> None:
    path, rows = tmp_path / file, json.dumps({"text": TEXTS[0]}).encode() + b"\n"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(rows) if file.endswith("gz") else zstandard.compress(rows))
    local = (
        f"{tmp_path}/{hf._KNOWN_DATASETS[name].files.split('/', 5)[5]}"  # behind hf://datasets/OWNER/NAME/
    )
    monkeypatch.setitem(hf._KNOWN_DATASETS, name, replace(hf._KNOWN_DATASETS[name], files=local))
    docs, _ = read(f"hf:{name}", lang="sw")
    assert [doc.text for doc in docs] == [TEXTS[0]]


def test_a_repository_that_is_a_script_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "cc100").mkdir()
    (tmp_path / "cc100" / "cc100.py").write_text("raise SystemExit('code from the hub was run')\n")
    with pytest.raises(UserError, match="loading script, which datasets no longer runs"):
        read(f"hf:{tmp_path / 'cc100'}", lang="sw")


def test_a_damaged_parquet_file_is_noted(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    _, ledger = read(f"parquet:{tmp_path}/*")
    assert ledger.dropped == {("read", "damaged Parquet file"): 1}


def test_toyworld_is_seeded() -> None:
    docs, _ = read("toyworld:20")
    assert len(docs) == 20
    assert read("toyworld:20")[0] == docs
    assert read("toyworld:20", seed=7)[0] != docs
