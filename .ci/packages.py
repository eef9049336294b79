"""The packages of ``requirements.lock``: a list of them as CycloneDX, and known vulnerabilities from a saved database.

    python3 .ci/packages.py sbom >build/sbom.json
    python3 .ci/packages.py audit all.zip

The database is a dump of osv.dev for PyPI, https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip, fetched
on a machine with a network and copied to one without.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

try:
    from packaging.version import InvalidVersion, Version
except ModuleNotFoundError:  # a Python without packages has pip's copy
    from pip._vendor.packaging.version import InvalidVersion, Version  # type: ignore[assignment]

ROOT = Path(__file__).resolve().parents[1]
_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]+)")


def canonical(name: str) -> str:
    """Return the name of a package as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> dict[tuple[str, str], list[str]]:
    """Return (name, version) -> SHA-256 of each of its files, from the text of a lock."""
    packages: dict[tuple[str, str], list[str]] = {}
    hashes: list[str] = []
    for line in text.splitlines():
        if match := _PINNED.match(line):
            hashes = packages.setdefault((canonical(match[1]), match[2]), [])
        if not line.lstrip().startswith("#"):
            hashes += _HASH.findall(line)
    return packages


def sbom(lock: str, project: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CycloneDX document of the packages in a lock; equal locks give equal documents."""
    serial = uuid.UUID(bytes=hashlib.sha256(lock.encode()).digest()[:16], version=4)
    components = []
    for (name, version), hashes in sorted(locked(lock).items()):
        purl, address = f"pkg:pypi/{name}@{version}", f"https://pypi.org/project/{name}/{version}/#files"
        sums = [{"alg": "SHA-256", "content": digest} for digest in hashes]
        files = [{"type": "distribution", "url": address, "hashes": sums}]
        own = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        components.append({**own, "externalReferences": files})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": project["name"], "name": project["name"]}
        },
        "components": components,
        "dependencies": [{"ref": project["name"], "dependsOn": [each["bom-ref"] for each in components]}],
    }


def vulnerabilities(
    database: Path, packages: Mapping[tuple[str, str], list[str]]
) -> Iterator[tuple[str, str, str]]:
    """Yield name, version and identifiers of each that a zip of entries of the OSV schema 1.x has of these packages.

    Raises:
        ValueError: an entry has another form, or none is of PyPI, so that the database knows nothing of them.
    """
    num_entries = 0
    with zipfile.ZipFile(database) as archive:
        for file in sorted(name for name in archive.namelist() if name.endswith(".json")):
            try:
                entry = json.loads(archive.read(file))
                spans: dict[str, list[Mapping[str, Any]]] = {}
                for affected in entry.get("affected", []):
                    if (package := affected.get("package", {})).get("ecosystem") == "PyPI":
                        spans.setdefault(canonical(package["name"]), []).append(affected)
                identifiers = ", ".join([str(entry["id"]), *entry.get("aliases", [])])
                num_entries += bool(spans)
                if entry.get("withdrawn"):
                    continue
                affected_packages = [
                    (name, version, identifiers)
                    for name, version in packages
                    if any(is_affected(version, affected) for affected in spans.get(name, []))
                ]
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{file} has another form than the OSV schema: {error!r}") from None
            yield from affected_packages
    if not num_entries:
        raise ValueError("it has no entry of PyPI, so it knows nothing of these packages")


def is_affected(version: str, affected: Mapping[str, Any]) -> bool:
    """Return whether a version is listed, or lies in a range: introduced, and neither fixed nor behind the last."""
    ours = Version(version)
    if any(ours == _version(each) for each in affected.get("versions", [])):
        return True
    for span in affected.get("ranges", []):
        inside = False
        events = [next(iter(event.items())) for event in span.get("events", [])]
        events.sort(key=lambda event: (event[1] != "0", _version(event[1])))  # 0 comes before every version
        for kind, text in events if span.get("type") == "ECOSYSTEM" else []:
            bound = _version(text)
            if ours > bound or (ours == bound and kind != "last_affected"):
                inside = kind == "introduced"
        if inside:
            return True
    return False


def _version(text: str) -> Version:
    """Return a version; one in no valid form, such as 2004d, comes before all others, as pip once sorted them."""
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0.dev0")


def main(words: list[str]) -> int:
    """Write the list, or print what is known; return 1 where something is, 2 for a wrong call."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    if words == ["sbom"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        print(json.dumps(sbom(lock, project), indent=1))
        return 0
    if len(words) != 2 or words[0] != "audit":
        print(__doc__, file=sys.stderr)
        return 2
    packages = locked(lock)
    try:
        faults = list(vulnerabilities(Path(words[1]), packages))
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        print(f"DB={words[1]}: {error}; valid: a zip of osv.dev, see .ci/packages.py", file=sys.stderr)
        return 2
    for name, version, identifiers in faults:
        print(f"{name} {version}: {identifiers}")
    print(f"{len(faults)} known vulnerabilities in {len(packages)} packages", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
