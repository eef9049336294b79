"""The Dockerfile and the Apptainer recipe agree with each other and with the Makefile that they call."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "containers" / "Dockerfile").read_text(encoding="utf-8")
RECIPE = (ROOT / "containers" / "apptainer.def").read_text(encoding="utf-8")
SECTIONS = {
    "arguments",
    "environment",
    "files",
    "help",
    "labels",
    "post",
    "runscript",
    "setup",
    "startscript",
    "test",
}
INSTALL = r"apt-get install --yes --no-install-recommends ([\w+. -]+)"


def sections() -> dict[str, str]:
    """The sections of the Apptainer recipe by name; its header is ""."""
    parts = re.split(r"^%(\w+).*\n", RECIPE, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def runs() -> list[str]:
    """The shell commands of the Dockerfile's ``RUN`` lines."""
    return [
        run.replace("\\\n", " ") for run in re.findall(r"^RUN ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)
    ]


def filled(script: str, given: dict[str, str]) -> str:
    """A script with Apptainer's arguments in their places."""
    return re.sub(r"\{\{ (\w+) \}\}", lambda match: given[match[1]], script)


def called(script: str, given: dict[str, str], tmp_path: Path) -> list[list[str]]:
    """The arguments of each call of ``make``, when nothing but it does anything."""
    quiet = "".join(f"{name}() {{ :; }}\n" for name in ("apt_get", "cd", "rm", "useradd"))
    record = f"make() {{ printf '%s\\n' \"$@\" end >>{tmp_path}/calls; }}\n"
    script = script.replace("apt-get", "apt_get")
    subprocess.run(["sh", "-euc", quiet + record + script], check=True, env=given, cwd=tmp_path)
    calls = (tmp_path / "calls").read_text(encoding="utf-8").split("end\n")[:-1]
    return [call.splitlines() for call in calls]


def test_the_recipe_has_known_sections_and_the_images_of_the_dockerfile() -> None:
    assert sections().keys() - {""} <= SECTIONS and {"files", "post", "runscript"} <= sections().keys()
    header = dict(
        line.split(": ") for line in sections()[""].splitlines() if not line.startswith("#") and line
    )
    images = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert header == {"Bootstrap": "docker", "From": images[0]} and len(set(images)) == 1


@pytest.mark.parametrize("torch", ["", "torch==2.13.0+cu130"])
def test_both_call_make_with_the_same_settings(torch: str, tmp_path: Path) -> None:
    given = {"TORCH": torch, "TORCH_INDEX": torch and "https://example.org/whl/cu130"}
    (run,) = [run for run in runs() if "make install" in run]
    places = [tmp_path / "docker", tmp_path / "apptainer"]
    for place in places:
        place.mkdir()
    docker = called(run, given, places[0])
    apptainer = called(filled(sections()["post"], given), {}, places[1])
    wanted = ["install", "PYTHON=python3.11", *(f"{name}={value}" for name, value in given.items() if value)]
    assert docker == apptainer == [wanted]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    settings = re.findall(r"^SETTINGS := (.*)$", makefile, re.MULTILINE)[0].split()
    assert {word.partition("=")[0] for word in wanted[1:]} <= set(settings)
    assert re.search(r"^install:", makefile, re.MULTILINE)


def test_both_offer_the_same_arguments_and_install_the_same_packages() -> None:
    offered = re.findall(r"^ARG (\w+=.*)$", DOCKERFILE, re.MULTILINE)
    assert sections()["arguments"].split() == offered
    build = re.findall(INSTALL, DOCKERFILE)[0].split()
    assert re.findall(INSTALL, sections()["post"])[0].split() == build


def test_both_have_a_python_that_xling_takes_and_its_commands_on_the_path() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = re.findall(r"python:3\.(\d+)", DOCKERFILE)[0]
    assert project["requires-python"] == ">=3.11,<3.13" and version in ("11", "12")
    assert f"PYTHON=python3.{version}" in DOCKERFILE and f"PYTHON=python3.{version}" in RECIPE
    folder = re.findall(r"^WORKDIR (\S+)\nCOPY \. \.", DOCKERFILE, re.MULTILINE)[0]
    assert f"COPY --from=build {folder} {folder}" in DOCKERFILE and f". {folder}" in sections()["files"]
    for text in (DOCKERFILE, sections()["environment"]):
        assert f"PATH={folder}/.venv/bin:$PATH" in text
    assert 'ENTRYPOINT ["xling"]' in DOCKERFILE and "xling" in project["scripts"]
    assert sections()["runscript"].strip() == 'exec xling "$@"'


def test_what_a_machine_made_stays_out_of_the_image() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", ".venv", "runs"} <= set(ignored)
