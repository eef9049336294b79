"""The Makefile in a copy of its own, with an `xling` and a Python that only note how they were called."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
FILES = ("Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock")

FAKE_XLING = f"""#!{sys.executable}
import json, os, sys
with open("calls.jsonl", "a") as file:
    print(json.dumps([sys.argv[1:], dict(os.environ)]), file=file)
"""

# Stands for a Python that can make environments; each `pip install` is a line of pip.log. It has uv where the file
# `has-uv` is, as a program that notes its calls likewise.
FAKE_PYTHON = """#!/usr/bin/env bash
set -eu
case "$*" in
    "-c "*) echo "${FAKE_VERSION:-3.11}"; [[ ${FAKE_VERSION:-3.11} != 3.9 ]] ;;
    "-W ignore -m compileall -q "*/fairseq) ;;
    "-m venv --clear .venv") rm -rf .venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python; echo venv >>pip.log ;;
    "-m pip --version") ;;
    "-m pip install "*" uv=="*)
        if [[ ! -e has-uv ]]; then echo "error: no uv" >&2; exit 1; fi
        cp uv .venv/bin/uv ;;
    "-m pip install "*)
        echo "${PIP_INDEX_URL:-}${PIP_NO_INDEX:+off-line $PIP_FIND_LINKS} $*" >>pip.log
        if [[ -e hang && $* == *fairseq.lock* ]]; then touch hanging; sleep 60; fi
        if [[ -e fail && $* == *fairseq.lock* ]]; then echo "error: no compiler" >&2; exit 1; fi ;;
    "-m pip download "*) all=$*; echo "$all" >>pip.log; rest=${all#*--dest }; touch "${rest%% *}/one.whl" ;;
    *) exit 9 ;;
esac
"""


@pytest.fixture
def copy(tmp_path):
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def installed(copy):
    """A copy whose environment is up to date and holds the fake `xling`."""
    xling = copy / ".venv" / "bin" / "xling"
    xling.parent.mkdir(parents=True)
    xling.write_text(FAKE_XLING)
    xling.chmod(0o755)
    (copy / ".venv" / ".installed").touch()
    return copy


@pytest.fixture
def python(copy):
    fake = copy / "a python"
    fake.write_text(FAKE_PYTHON)
    fake.chmod(0o755)
    return fake


def make(folder, *words, **environment):
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "XLING", "LC_", "LANG"))
    }
    return subprocess.run(
        ["make", *words], cwd=folder, env=clean | environment, capture_output=True, text=True, timeout=60
    )


def calls(folder):
    file = folder / "calls.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def pip_log(folder):
    lines = (folder / "pip.log").read_text().splitlines()
    return [line.replace("-m pip install --quiet --disable-pip-version-check ", "") for line in lines]


def test_help_is_the_default_and_lists_every_target(copy):
    done = make(copy)
    assert done.returncode == 0
    listed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("  make ")]
    expected = """help install check test test-fast bench quickstart hour corpus parallel codeswitch vocab binarize
        pretrain finetune eval report clean"""
    assert set(expected.split()) <= set(listed)
    assert make(copy, "help").stdout == done.stdout


def test_the_language_is_a_word_and_never_a_locale(installed):
    done = make(installed, "corpus", "LANG=sw", "SOURCE=text:a b/*.txt", "SIZE=10MB", LANG="en_US.UTF-8")
    assert done.returncode == 0, done.stderr
    [[argv, environment]] = calls(installed)
    assert argv == ["corpus", "mono", "lang=sw", "source=text:a b/*.txt", "size=10MB"]
    assert environment["LC_ALL"] == "C.UTF-8"
    assert "LANG" not in environment
    assert {k: v for k, v in environment.items() if "LANG=sw" in v or v == "sw"} == {"XLING_ARG_LANG": "sw"}


@pytest.mark.parametrize("words", [(), ("-e",)])
def test_the_locale_of_the_environment_is_no_language(installed, words):
    done = make(installed, *words, "corpus", LANG="sw")
    assert done.returncode == 2
    assert "make: LANG='' on the command line is no language code; fix: LANG=sw" in done.stderr
    assert calls(installed) == []
    make(installed, *words, "quickstart", LANG="de_DE.UTF-8")
    assert "LANG" not in calls(installed)[0][1]


@pytest.mark.parametrize(
    ("target", "name", "value"),
    [
        *(("corpus", "LANG", value) for value in (
            "all", "Swahili", "sw,eu", "sw, eu", "es-419", "Haitian Creole", "Norwegian Bokmål", "sr@latin",
            "Ta'izzi-Adeni Arabic", "Acehnese (Arabic script)", "zh-Hant-TW",
        )),
        *(("parallel", "PAIR", value) for value in ("English-Swahili", "en_sw", "en - sw", "en-es-419")),
    ],
)  # fmt: skip
def test_whatever_the_command_knows_as_a_language_reaches_it(installed, target, name, value):
    assert make(installed, target, f"{name}={value}").returncode == 0
    [[argv, _]] = calls(installed)
    assert argv[2] == f"{name.lower()}={value}"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("vocab", ["LANG=all"]), ("pretrain", ["LANG=sw", "SOURCE=a"]), ("eval", ["TASK=toy_ner"]),
        ("report", ["CKPT=a"]), ("parallel", ["LANG=sw", "PAIR=en-sw"]), ("help", ["LANG=sw"]), ("clean", ["OUT=a"]),
    ],
)  # fmt: skip
def test_a_setting_that_a_target_does_not_take_is_an_error(installed, target, words):
    done = make(installed, target, *words)
    useless = " ".join(word.partition("=")[0] for word in words if word != "PAIR=en-sw")
    assert done.returncode == 2 and f"make {target} takes no {useless}; it takes: " in done.stderr
    assert calls(installed) == []


HOSTILE = [
    "sw; touch pwned",
    "$(shell touch pwned)",
    "$$(touch pwned)",
    "`touch pwned`",
    "sw\ntouch pwned",
    "sw' && touch pwned '",
    'sw" && touch pwned "',
    "$(eval export X=1)",
    "${LANG}",
    "sw|touch pwned",
    "../sw",
    "sw lang=de",
    "",
    "*",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_what_is_no_code_is_refused_in_one_line_without_side_effect(installed, value):
    before = sorted(installed.rglob("*"))
    for target, name in (("corpus", "LANG"), ("parallel", "PAIR"), ("codeswitch", "PAIR")):
        done = make(installed, target, f"{name}={value}")
        assert done.returncode == 2
        ours = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
        assert len(ours) == 1
        assert f"fix: {name}=" in ours[0]
    assert sorted(installed.rglob("*")) == before


def test_a_wrong_code_is_refused_before_anything_is_installed(copy, python):
    assert make(copy, "corpus", "LANG=sw; x", f"PYTHON={python}").returncode == 2
    assert not (copy / "pip.log").exists()


@pytest.mark.parametrize("value", HOSTILE[:-2])
def test_every_other_setting_arrives_as_it_was_typed(installed, value):
    settings = ("SOURCE", "SIZE", "RECIPE", "OUT", "CLUSTER")
    done = make(installed, "parallel", "PAIR=en-zh_Hant", *(f"{name}={value}" for name in settings))
    assert done.returncode == 0, done.stderr
    done = make(installed, "eval", f"SUITE={value}", f"CKPT={value}")
    assert done.returncode == 0, done.stderr
    words = [f"{name.lower()}={value}" for name in ("SOURCE", "SIZE", "OUT", "CLUSTER")]
    assert [argv for argv, _ in calls(installed)] == [
        ["corpus", "parallel", f"{value}.yaml", "pair=en-zh_Hant", *words],
        ["eval", value, f"checkpoint={value}"],
    ]
    assert not (installed / "pwned").exists()


def test_words_of_args_are_split_at_spaces_and_nothing_else(installed):
    make(installed, "pretrain", "RECIPE=tlm", "ARGS=a.b=* c=$(shell touch pwned);x d=`y`")
    make(installed, "report", "RUNS=runs/a runs/b", "OUT=report")
    assert [argv for argv, _ in calls(installed)] == [
        ["pretrain", "tlm.yaml", "a.b=*", "c=$(shell", "touch", "pwned);x", "d=`y`"],
        ["report", "runs/a", "runs/b", "out=report"],
    ]
    assert not (installed / "pwned").exists()


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        (["quickstart"], ["quickstart"]),
        (["quickstart", "OUT=runs/q", "CLUSTER=slurm"], ["quickstart", "out=runs/q", "cluster=slurm"]),
        (["hour", "DATA=my data", "ARGS=minutes=10"], ["run", "hour", "data=my data", "minutes=10"]),
        (["codeswitch", "PAIR=en-sw"], ["corpus", "codeswitch", "pair=en-sw"]),
        (["vocab", "RECIPE=recipes/v.yaml", "SIZE=8000"], ["vocab", "recipes/v.yaml", "size=8000"]),
        (["binarize", "ARGS=vocab=v out=b"], ["binarize", "vocab=v", "out=b"]),
        (["pretrain", "RECIPE=xlm", "CLUSTER=slurm"], ["pretrain", "xlm.yaml", "cluster=slurm"]),
        (["finetune", "TASK=ner", "CKPT=runs/p"], ["finetune", "ner", "checkpoint=runs/p"]),
        (
            ["eval", "SUITE=xnli", "CKPT=p", "CLUSTER=slurm"],
            ["eval", "xnli", "checkpoint=p", "cluster=slurm"],
        ),
    ],
)
def test_each_target_is_one_command(installed, words, argv):
    done = make(installed, *words)
    assert done.returncode == 0, done.stderr
    assert [call for call, _ in calls(installed)] == [argv]


def test_settings_in_the_environment_do_not_count_and_other_variables_pass(installed):
    make(installed, "quickstart", "XLING_DATA=$(shell touch pwned)", OUT="elsewhere", ARGS="a=b")
    [[argv, environment]] = calls(installed)
    assert argv == ["quickstart"]
    assert environment["XLING_DATA"] == "$(shell touch pwned)"
    assert not (installed / "pwned").exists()


def test_a_dry_run_runs_nothing(installed):
    done = make(installed, "-n", "corpus", "LANG=sw", "OUT=$(shell touch pwned)")
    assert done.returncode == 0
    assert ".venv/bin/xling corpus mono" in done.stdout
    assert calls(installed) == []
    assert not (installed / "pwned").exists()


STEPS = [
    " --constraint .venv/versions.txt torch==2.13.0",
    " --constraint .venv/versions.txt setuptools wheel",
    " --require-hashes --no-deps --no-build-isolation --requirement .venv/fairseq.lock",
    " --require-hashes --no-deps --requirement requirements.lock",
    " --no-deps --no-build-isolation --editable .",
]
PIP_STEPS = [f" --no-compile{step}" for step in STEPS]


def test_install_goes_in_order_and_only_when_something_changed(copy, python):
    done = make(copy, "install", f"PYTHON={python}")
    assert done.returncode == 0, done.stderr
    assert "install: without uv; pip takes" in done.stdout
    assert pip_log(copy) == ["venv", *PIP_STEPS]
    assert re.fullmatch(
        r"fairseq-fixed==\S+ \\\n(    --hash=\S+( \\)?\n)+", (copy / ".venv/fairseq.lock").read_text()
    )
    versions = (copy / ".venv/versions.txt").read_text()
    assert "numpy==" in versions and "sha256" not in versions, "pip asks for hashes of all where one has them"
    assert make(copy, "install").returncode == 0
    assert len(pip_log(copy)) == 6

    later = time.time() + 10
    os.utime(copy / "requirements.lock", (later, later))
    path = {"PATH": f"{copy}:{os.environ['PATH']}"}
    python.rename(copy / "python3.11")
    assert make(copy, "install", **path).returncode == 0
    assert pip_log(copy)[6:] == PIP_STEPS, "the environment is kept, its packages are checked"


def test_the_tools_of_developers_come_on_top_and_hold_what_users_have(copy, python):
    done = make(copy, "install-dev", f"PYTHON={python}")
    assert done.returncode == 0, done.stderr
    assert pip_log(copy) == [
        "venv",
        *(step.replace("requirements.", "requirements-dev.") for step in PIP_STEPS),
    ]
    make(copy, "install")
    make(copy, "install-dev")
    assert len(pip_log(copy)) == 6, "both are up to date"


def test_uv_installs_where_it_can_be_had_and_hears_of_pips_settings(copy, python):
    (copy / "has-uv").touch()
    (copy / "uv").write_text(
        '#!/bin/sh\nshift 5\necho "uv $UV_FIND_LINKS $UV_INDEX_URL $*" >>pip.log\n[ ! -e fail ]\n'
    )
    (copy / "uv").chmod(0o755)
    environment = {"PIP_FIND_LINKS": "/a /b", "PIP_INDEX_URL": "file:///index"}
    assert make(copy, "install", f"PYTHON={python}", **environment).returncode == 0
    assert pip_log(copy) == ["venv", *(f"uv /a,/b file:///index{step}" for step in STEPS)]
    (copy / "fail").touch()
    (copy / "pyproject.toml").touch()
    done = make(copy, "install", f"PYTHON={python}", **environment)
    assert "install: uv failed; now with pip" in done.stdout
    assert pip_log(copy)[7] == f"file:///index --no-compile{STEPS[0]}"


def test_install_says_of_each_step_how_long_it_took_and_what_it_added(copy, python):
    lines = make(copy, "install", f"PYTHON={python}").stdout.splitlines()
    steps = ["torch==2.13.0", "fairseq", "the rest of requirements.lock", "xling"]
    begun = [line for line in lines if line.startswith("install: ") and not line.startswith("install:  ")]
    assert [
        step for line, step in zip(begun[2:], steps, strict=False) if line.startswith(f"install: {step}")
    ] == steps
    ended = [line for line in lines if re.fullmatch(r"install:   \d+ s, -?\d+ MB", line)]
    assert len(ended) == len(steps)
    assert re.fullmatch(r"install: done in \d+ s, \d+ MB in \.venv", lines[-1])


def test_a_machine_without_a_network_installs_from_a_wheelhouse(copy, python):
    path = {"PATH": f"{copy}:{os.environ['PATH']}"}
    python.rename(copy / "python3.11")
    done = make(copy, "wheelhouse", "OUT=files", **path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"wheelhouse: 2 files, \d+ MB\. There: make install WHEELS=files", done.stdout)
    torch, uv, rest = pip_log(copy)[-3:]
    assert torch.endswith("--dest files --constraint .venv/versions.txt torch==2.13.0")
    assert re.search(r"--dest files --no-deps uv==[\d.]+$", uv)
    assert rest.endswith(
        "--dest files --require-hashes --no-deps --no-build-isolation --requirement requirements.lock"
    )
    before = len(pip_log(copy))
    done = make(copy, "install", "WHEELS=files", **path)
    assert done.returncode == 0, done.stderr
    lines = pip_log(copy)[before:]
    assert len(lines) == 5 and all(line.startswith(f"off-line {copy / 'files'} ") for line in lines)


def test_a_wrong_wheelhouse_is_refused(copy, python):
    done = make(copy, "install", f"PYTHON={python}", "WHEELS=nowhere")
    assert (
        done.returncode == 2
        and "WHEELS=nowhere was not made by make wheelhouse; fix: run make wheel" in done.stderr
    )
    (copy / "old").mkdir()
    (copy / "old" / "requirements.lock").write_text("another")
    done = make(copy, "install", f"PYTHON={python}", "WHEELS=old")
    assert done.returncode == 2 and "WHEELS=old was made for another requirements.lock" in done.stderr
    assert not (copy / "pip.log").exists()


def test_a_cuda_build_is_one_setting(copy, python):
    index = "file:///a b;touch pwned"
    assert make(copy, "install", f"PYTHON={python}").returncode == 0
    done = make(copy, "install", f"PYTHON={python}", "TORCH=torch==2.13.0+cu130", f"TORCH_INDEX={index}")
    assert done.returncode == 0, done.stderr
    again = pip_log(copy)[6:]
    assert again[0] == f"{index} --no-compile --constraint .venv/versions.txt --upgrade torch==2.13.0+cu130"
    assert not any(index in line for line in again[1:])
    assert not (copy / "pwned").exists()


def test_an_install_that_fails_leaves_no_stamp_and_shows_the_error(copy, python):
    (copy / "fail").touch()
    done = make(copy, "test", f"PYTHON={python}")
    assert done.returncode != 0
    assert "error: no compiler" in done.stderr
    assert not (copy / ".venv" / ".installed").exists()
    (copy / "fail").unlink()
    assert make(copy, "install", f"PYTHON={python}").returncode == 0
    assert (copy / ".venv" / ".installed").exists()


def test_a_killed_install_leaves_no_stamp(copy, python):
    assert make(copy, "install", f"PYTHON={python}").returncode == 0
    (copy / "hang").touch()
    later = time.time() + 10
    os.utime(copy / "pyproject.toml", (later, later))
    process = subprocess.Popen(
        ["make", "install", f"PYTHON={python}"], cwd=copy, stdout=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not (copy / "hanging").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert (copy / "hanging").exists()
    assert not (copy / ".venv" / ".installed").exists()


@pytest.mark.parametrize("setting", ["no such python", "$(shell touch pwned)", "a python"])
def test_a_python_that_does_not_fit_is_refused(copy, python, setting):
    setting = setting.replace("a python", str(python))
    done = make(copy, "install", f"PYTHON={setting}", FAKE_VERSION="3.9")
    assert done.returncode == 2
    assert f"make install: {setting} is no Python 3.11 or 3.12; fix: make install PYTHON=" in done.stderr
    assert not (copy / ".venv").exists()
    assert not (copy / "pwned").exists()


def test_another_python_makes_the_environment_anew(copy, python):
    make(copy, "install", f"PYTHON={python}")
    make(copy, "install", f"PYTHON={python}")
    assert pip_log(copy).count("venv") == 1
    (copy / ".venv" / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
    make(copy, "install", f"PYTHON={python}")
    assert pip_log(copy).count("venv") == 2, "a broken environment is made anew"


def test_every_target_that_needs_the_environment_installs_it(copy, python):
    targets = """check test test-fast bench quickstart hour vocab binarize pretrain finetune eval report"""
    for target in targets.split():
        assert "-m venv --clear" in make(copy, "-n", target).stdout, target
    assert "-m venv --clear" in make(copy, "-n", "corpus", "LANG=sw").stdout


def test_clean_keeps_what_a_run_made(installed):
    (installed / "runs").mkdir()
    (installed / "xling" / "__pycache__").mkdir(parents=True)
    assert make(installed, "clean").returncode == 0
    assert sorted(p.name for p in installed.iterdir()) == [
        "Makefile",
        "pyproject.toml",
        "requirements-dev.lock",
        "requirements.lock",
        "runs",
        "xling",
    ]
    assert list((installed / "xling").iterdir()) == []


def locked(name):
    """Return the versions of a lock; every package has its hashes."""
    text = (ROOT / name).read_text()
    entries = re.findall(
        r"^([a-z0-9-]+)==(\S+)(?: ; [^\\]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.M
    )
    assert len(entries) == len(re.findall(r"^[a-z0-9]", text, re.M))
    assert "//" not in text, "no lock names an index"
    return {package: version for package, version, _ in entries}


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_locks_hold_what_the_project_asks_for_except_torch():
    """Torch comes first: which build of it fits depends on the machine."""
    user, developer = locked("requirements.lock"), locked("requirements-dev.lock")
    assert user.items() <= developer.items()
    apart = {"torch", "torchaudio", "triton"}
    assert not apart & set(developer)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = set()
    for lines in [project["dependencies"], *(extras[name] for name in extras if name != "mecab")]:
        asked |= {canonical(Requirement(line).name) for line in lines}
    assert asked - {"xling", "torch"} <= set(developer)
    wanted = re.search(r"^USER_EXTRAS := (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    for lines in [project["dependencies"], *(extras[name] for name in wanted)]:
        assert {canonical(Requirement(line).name) for line in lines} - {"torch"} <= set(user)
    assert not {"pytest", "mkdocs-material", "tensorboard"} & set(user)


def test_the_locks_name_what_their_packages_need():
    """Nothing else is brought in with `--no-deps`."""
    pins = {*locked("requirements-dev.lock"), "torch"}
    missing = set()
    for name in pins:
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # for another machine
        for need in map(Requirement, needs):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                wanted = canonical(need.name)
                missing |= {f"{name} needs {wanted}"} if wanted not in pins else set()
    # What torch brings depends on its build; nothing here uses torchaudio.
    assert {text for text in missing if not text.startswith("torch needs")} == {
        "fairseq-fixed needs torchaudio"
    }


def test_the_audit_reads_the_lock_and_nothing_of_the_environment(copy):
    tool = copy / "build/audit/bin/pip-audit"
    tool.parent.mkdir(parents=True)
    tool.write_text('#!/bin/sh\necho "$@" >asked\n')
    tool.chmod(0o755)
    assert make(copy, "audit").returncode == 0
    # Without --strict it ends well where its database knows none of the packages.
    expected = "--strict --disable-pip --require-hashes --requirement requirements.lock\n"
    assert (copy / "asked").read_text() == expected
    assert not (copy / ".venv").exists()
    tool.write_text("#!/bin/sh\nexit 1\n")  # a vulnerability, or a database that does not answer
    assert make(copy, "audit").returncode != 0
