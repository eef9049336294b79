"""Resources and site profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.commands.runner import STAGES
from xling.core.errors import UserError
from xling.slurm.resources import DEFAULTS, Resources, Site, read_site
from xling.slurm.submit import _parameters_of

PROFILE = """\
folder: runs/here
default: {partition: cpu, account: nlp, setup: ["module load python/3.11", "export A='b c'"]}
stages:
  pretrain: {partition: gpu, nodes: 2, tasks_per_node: 8, gpus_per_node: 8, timeout_min: 2880}
  collect: {mem_gb: 0.5}
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "my site.yaml"
    path.write_text(text)
    return str(path)


def test_layers(tmp_path: Path) -> None:
    site = read_site(written(tmp_path, PROFILE))
    assert site.folder == Path("runs/here")
    assert site.resources("pretrain") == Resources(
        nodes=2,
        tasks_per_node=8,
        cpus_per_task=8,
        mem_gb=64.0,
        gpus_per_node=8,
        timeout_min=2880,
        partition="gpu",
        account="nlp",
        signal_delay_s=300,
        hang_slack_s=35,
        hang_start_s=600,
        setup=("module load python/3.11", "export A='b c'"),
    )
    assert site.resources("pretrain").num_tasks == 16
    assert site.resources("collect").partition == "cpu"
    assert site.resources("eval", {"nodes": "3"}).nodes == 3
    assert site.resources("pretrain").node_hours() == 96.0


def test_profile_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLING_SITE", written(tmp_path, PROFILE))
    assert read_site().folder == Path("runs/here")
    monkeypatch.delenv("XLING_SITE")
    assert read_site() == Site()


def test_memory_may_be_left_to_the_site_or_be_all_of_a_node() -> None:
    for given_, wanted in (("none", None), ("0", "0"), ("1.5", "1536M")):
        resources = Site().resources("pretrain", {"mem_gb": given_})
        assert _parameters_of(resources, "job").get("mem") == wanted, given_


@pytest.mark.parametrize("constraint", ["[a100&ib]", "[rack1|rack2]", "(a|b)&c", "[a100*2&ib*2]", "{x}"])
def test_a_constraint_in_brackets_is_text(constraint: str) -> None:
    if constraint == "{x}":  # which Slurm has not
        with pytest.raises(UserError, match="constraint="):
            Site().resources("pretrain", {"constraint": constraint})
        return
    resources = Site().resources("pretrain", {"constraint": constraint})
    assert _parameters_of(resources, "job")["constraint"] == constraint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "stages: {pretrain: {nodez: 2}}",
            "unknown setting 'nodez'; fix: did you mean 'nodes'?; valid: account, array_parallelism,",
        ),
        ("stages: {pretrain: {nodez: 2}}", "did you mean 'nodes'"),
        ("default: {partitoin: x}", "did you mean 'partition'"),
        ("defaults: {nodes: 2}", "valid: default, folder, stages"),
        ("stages: {pretrian: {nodes: 2}}", "did you mean 'pretrain'"),
        ("default: {nodes: two}", "nodes='two'"),
        ("default: {nodes: 0}", "a whole number from 1"),
        ("default: {mem_gb: 0.0001}", "mem_gb=0.0001"),
        ("default: [1]", "a mapping of settings"),
        ('default: {partition: "a b"}', "partition='a b'"),
        ('default: {account: "x\\nrm -rf y"}', "account='x"),
        ('default: {constraint: "$(reboot)"}', "constraint="),
    ],
)
def test_mistakes_name_what_is_valid(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        read_site(written(tmp_path, text))
    assert expected in str(caught.value)


def test_missing_profile() -> None:
    with pytest.raises(UserError, match=r"no recipe at nowhere\.yaml"):
        read_site("nowhere.yaml")


def test_every_stage_has_resources() -> None:
    for stage in STAGES:
        assert Site().resources(stage).num_tasks == 1
    assert set(DEFAULTS) - {"collect"} <= set(STAGES)


@given(st.text(min_size=1))
def test_no_name_can_leave_its_line(text: str) -> None:
    try:
        found = Resources(partition=text).partition
    except UserError:
        return
    assert found == text
    assert not set(text) & set(" \t\r\n\v\f\0'\"`$\\;<>!#{}~%") - {";"}
    assert text.splitlines() == [text]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"mem_gb": 1e-9}, "at least 0.001"),
        ({"mem_gb": float("nan")}, "at least 0.001"),
        ({"mem_gb": float("inf")}, "at least 0.001"),
        ({"mem_gb": -1.0}, "at least 0.001"),
        ({"signal_delay_s": 99999, "timeout_min": 5000}, "65,536"),
        ({"signal_delay_s": 60, "timeout_min": 1}, "fewer seconds than the time limit"),
        ({"nodes": 10**20}, "at most 10,000,000"),
        ({"partition": "a\0b"}, "letters, digits"),
    ],
)
def test_values_that_slurm_would_misread(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        Resources(**settings)
