"""The list of packages is CycloneDX, and a saved database of vulnerabilities is read as its schema says."""

from __future__ import annotations

import importlib.util
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

_spec = importlib.util.spec_from_file_location("packages", ROOT / ".ci" / "packages.py")
assert _spec and _spec.loader
packages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(packages)

LOCK = """# Written by ...
Py_Yaml==6.0 \\
    --hash=sha256:0a \\
    --hash=sha256:0b
    # via --hash=sha256:ff
zstandard==0.23.0 ; python_version < '3.14' \\
    --hash=sha256:0c
"""


def entry(name: str, **affected: Any) -> dict[str, Any]:
    return {
        "id": "PYSEC-1",
        "aliases": ["CVE-1"],
        "affected": [{"package": {"name": name, "ecosystem": "PyPI"}, **affected}],
    }


def span(*events: tuple[str, str], kind: str = "ECOSYSTEM") -> dict[str, Any]:
    return {"ranges": [{"type": kind, "events": [{name: version} for name, version in events]}]}


@pytest.mark.parametrize(
    ("version", "expected"), [("1.0", True), ("1.5", False), ("2.1", True), ("3.0", False)]
)
def test_events_of_a_range_count_in_order_of_their_versions(version: str, expected: bool) -> None:
    events = [("fixed", "3.0"), ("introduced", "2.0"), ("fixed", "1.5"), ("introduced", "0")]
    assert packages.is_affected(version, span(*events)) is expected
    assert packages.is_affected(version, span(*events[::-1])) is expected


def test_the_real_lock_is_read_as_a_whole() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    found = packages.locked(text)
    assert len(found) > 50 and all(hashes for hashes in found.values())
    assert sum(map(len, found.values())) == text.count("--hash=sha256:")


def test_the_list_names_every_package_with_its_hashes() -> None:
    document = packages.sbom(LOCK, {"name": "xling"})
    assert (
        document
        == packages.sbom(LOCK, {"name": "xling"})
        != packages.sbom(LOCK + "a==1\n", {"name": "xling"})
    )
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    first, second = document["components"]
    assert (first["purl"], second["purl"]) == ("pkg:pypi/py-yaml@6.0", "pkg:pypi/zstandard@0.23.0")
    assert first["externalReferences"][0]["hashes"] == [
        {"alg": "SHA-256", "content": x} for x in ("0a", "0b")
    ]
    refs = {each["bom-ref"] for each in document["components"]}
    assert len(refs) == 2 and set(document["dependencies"][0]["dependsOn"]) == refs


@pytest.mark.parametrize(
    ("affected", "is_known"),
    [
        (entry("py.yaml", versions=["6.0"]), True),
        (entry("py.yaml", versions=["5.9"]), False),
        (entry("py.yaml", versions=["2004d", "6"]), True),
        (entry("py.yaml", **span(("introduced", "2004d"))), True),
        (entry("py.yaml", **span(("introduced", "0"), ("fixed", "2004d"))), False),
        (entry("PY_YAML", **span(("introduced", "0"))), True),
        (entry("py-yaml", **span(("introduced", "0"), ("fixed", "6.0"))), False),
        (entry("py-yaml", **span(("introduced", "0"), ("fixed", "6.0.1"))), True),
        (entry("py-yaml", **span(("introduced", "0"), ("last_affected", "6.0"))), True),
        (entry("py-yaml", **span(("introduced", "0"), ("fixed", "5.4"), ("introduced", "5.10"))), True),
        (entry("py-yaml", **span(("introduced", "6.1"))), False),
        (entry("py-yaml", **span(("introduced", "0"), kind="GIT")), False),
        (entry("py-yaml2", **span(("introduced", "0"))), False),
        ({**entry("py-yaml", **span(("introduced", "0"))), "withdrawn": "2024-01-01T00:00:00Z"}, False),
    ],
)
def test_versions_are_compared_as_the_schema_says(
    tmp_path: Path, affected: dict[str, Any], is_known: bool
) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("PYSEC-1.json", json.dumps(affected))
    found = list(packages.vulnerabilities(tmp_path / "all.zip", packages.locked(LOCK)))
    assert found == ([("py-yaml", "6.0", "PYSEC-1, CVE-1")] if is_known else [])


def test_the_command_says_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "requirements.lock").write_text(LOCK)
    monkeypatch.setattr(packages, "ROOT", tmp_path)
    for name, code, said in (("zstandard", 1, "zstandard 0.23.0: PYSEC-1, CVE-1\n"), ("other", 0, "")):
        with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
            archive.writestr("a.json", json.dumps(entry(name, **span(("introduced", "0")))))
        assert packages.main(["audit", str(tmp_path / "all.zip")]) == code
        shown = capsys.readouterr()
        assert (shown.out, shown.err) == (said, f"{code} known vulnerabilities in 2 packages\n")
    (tmp_path / "all.zip").write_text("<html>")
    assert packages.main(["audit", str(tmp_path / "all.zip")]) == packages.main(["audit"]) == 2


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "it has no entry of PyPI"),
        ({"README": "PyPI"}, "it has no entry of PyPI"),
        (
            {
                "a.json": json.dumps(
                    {"id": "GHSA-1", "affected": [{"package": {"name": "zstandard", "ecosystem": "npm"}}]}
                )
            },
            "it has no entry of PyPI",
        ),
        ({"a.json": "[1, 2]"}, "a.json has another form"),
        ({"a.json": '{"id": "X", "affected": null}'}, "a.json has another form"),
        ({"a.json": '{"id": "X", "affected": [{"package": null}]}'}, "a.json has another form"),
        ({"a.json": "{"}, "a.json has another form"),
    ],
    ids=["empty", "no JSON", "of npm", "a list", "null", "no package", "cut"],
)
def test_a_database_that_cannot_know_the_packages_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str], said: str
) -> None:
    """An empty zip, or one of another ecosystem, once gave "0 known vulnerabilities"."""
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    assert packages.main(["audit", str(tmp_path / "all.zip")]) == 2
    assert said in capsys.readouterr().err
