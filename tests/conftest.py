"""What several tests need: one thread, a tiny corpus in three scripts, and the things made from it once."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
from hypothesis import HealthCheck, settings

from tests import forked, shape_checks

# Set before any test imports torch: the machine may be shared, and one thread makes sums repeatable.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")
# oneDNN keeps the code of 1,024 products by shape, 0.3 MB and more each: every test has shapes of its own.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
# The lines about the time that passes depend on the machine; `tests/core/test_silence.py` turns them on.
os.environ.setdefault("XLING_QUIET", "true")
# Triton reads this once, when torch.compile or a kernel imports it: without a GPU its interpreter runs the kernels.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Before any test imports xling; XLING_SHAPES=0 leaves the checks out.
if os.environ.get("XLING_SHAPES") != "0":
    shape_checks.install("xling")

ROOT = Path(__file__).resolve().parent.parent
# Working directories are kept per test function, which Hypothesis warns about needlessly. A run draws the same examples
# as the last, half of Hypothesis' hundred; `pytest -m hypothesis --hypothesis-profile=explore` draws a hundred others.
settings.register_profile(
    "explore", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.register_profile("xling", settings.get_profile("explore"), derandomize=True, max_examples=50)
settings.load_profile("xling")

_MEANS = {
    "data": ("TESTS ON REAL DATA", "XLING_DATA to name the folder of real data"),
    "browser": ("TESTS IN A BROWSER", f"one of {', '.join(browser.NAMES)}, or CHROMIUM to name another"),
    "axe": ("TESTS OF ACCESSIBILITY", "axe-core: npm install --prefix tests --no-package-lock"),
}
_LEFT_OUT: dict[str, int] = {}
# Tests of more than _LIMIT seconds, or with slow fixtures of their own: `make test-fast` leaves them out.
_SECONDS = ROOT / "tests" / "seconds.txt"
_LIMIT = 0.15
_LONG_TEXT = 120
_MARKED = {"slow", "slurm", "data", "browser"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that write anew what tests compare with, and the seed of those that measure."""
    parser.addoption("--record", action="store_true", help="write what a test has recorded anew")
    parser.addoption("--seed", type=int, default=1, help="seed of the trainings that tests hold to a limit")
    parser.addoption(
        "--note-seconds", action="store_true", help=f"note the tests of this run in {_SECONDS.name}"
    )


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a long text by its argument: the name of a test is in the environment of its processes."""
    return argname if isinstance(val, str | bytes) and len(val) > _LONG_TEXT else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests whose means are not there; the summary says so. Say which go to one process."""
    takes_seconds = set(_SECONDS.read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in takes_seconds:
            item.add_marker("seconds")
        # The tests of a file share what it makes once; one cluster is enough, and one browser.
        alone = next((name for name in ("slurm", "browser") if item.get_closest_marker(name)), "")
        item.add_marker(pytest.mark.xdist_group(alone or item.nodeid.partition("::")[0]))
    there = {"data": "XLING_DATA" in os.environ, "browser": bool(browser.chromium())}
    there["axe"] = browser.AXE.is_file()
    for marker in [name for name, is_there in there.items() if not is_there]:
        left_out = [item for item in items if item.get_closest_marker(marker)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
        _LEFT_OUT[marker] = len(left_out)


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over modules and tests, millions of objects that stay to the end."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup() -> None:
    """Check the shapes of the first calls of every function in every test."""
    shape_checks.next_test()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what was left out from a process of xdist to the one that writes the summary."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = _LEFT_OUT


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what was left out; every process has collected the same tests."""
    _LEFT_OUT.update(getattr(node, "workeroutput", {}).get("left_out", {}))


def _note_seconds(terminalreporter: pytest.TerminalReporter) -> None:
    """Note which of the tests that ran took more than _LIMIT seconds and have no marker of their own.

    What is noted of tests that did not run stays, unless their file is gone.
    """
    reports = [
        report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, [])
    ]
    # A name of xdist ends with its group.
    seconds = {
        report.nodeid.partition("@")[0]: report.duration * (not _MARKED & set(report.keywords))
        for report in reports
        if report.when == "call"
    }
    noted = set(_SECONDS.read_text(encoding="utf-8").splitlines())
    names = {name for name in noted - seconds.keys() if (ROOT / name.partition("::")[0]).is_file()}
    names |= {name for name, duration in seconds.items() if duration > _LIMIT}
    _SECONDS.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was left out."""
    if terminalreporter.config.getoption("--note-seconds"):
        _note_seconds(terminalreporter)
    for marker, num in _LEFT_OUT.items():
        if num:
            title, means = _MEANS[marker]
            terminalreporter.section(f"{title} NOT RUN", sep="#", red=True, bold=True)
            terminalreporter.line(f"{num} tests need {means}", red=True)
    skipped = terminalreporter.stats.get("skipped", [])
    if missed := [report for report in skipped if "SLURM TESTS NOT RUN" in str(report.longrepr)]:
        from tests.slurm.testbed import bed

        terminalreporter.section("SLURM TESTS NOT RUN", sep="#", red=True, bold=True)
        terminalreporter.line(f"{len(missed)} tests need a real Slurm: {bed.obstacle()}", red=True)


# Subject, verb, object, place: every combination is a correct sentence.
_PARTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "en": (
        ("The old woman", "My neighbour", "A young doctor", "The teacher", "Our cousin"),
        ("sees", "sells", "finds", "wants", "likes"),
        ("a red boat", "the small house", "fresh bread", "two books", "the long letter"),
        ("near the river.", "in the village.", "behind the market.", "at home."),
    ),
    "ar": (
        ("المرأة العجوز", "جارتي", "الطبيبة الشابة", "المعلمة", "ابنة عمنا"),
        ("ترى", "تبيع", "تجد", "تريد", "تحب"),
        ("قاربا أحمر", "البيت الصغير", "خبزا طازجا", "كتابين", "الرسالة الطويلة"),
        ("قرب النهر.", "في القرية.", "خلف السوق.", "في المنزل."),
    ),
    "th": (
        ("หญิงชรา", "เพื่อนบ้านของฉัน", "หมอหนุ่ม", "ครู", "ลูกพี่ลูกน้องของเรา"),
        ("เห็น", "ขาย", "พบ", "อยากได้", "ชอบ"),
        ("เรือสีแดง", "บ้านหลังเล็ก", "ขนมปังสด", "หนังสือสองเล่ม", "จดหมายยาว"),
        ("ใกล้แม่น้ำ", "ในหมู่บ้าน", "หลังตลาด", "ที่บ้าน"),
    ),
}


def sentences(lang: str) -> list[str]:
    """500 different sentences in an order that mixes their parts."""
    glue = "" if lang == "th" else " "
    found = [glue.join(parts) for parts in itertools.product(*_PARTS[lang])]
    return [found[i * 211 % len(found)] for i in range(len(found))]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with en.txt, ar.txt and th.txt: paragraphs by line, a blank line between documents.

    English has five times as much text as Arabic, and ten times as much as Thai.
    """
    folder = tmp_path_factory.mktemp("corpus")
    for lang, share in (("en", 1), ("ar", 5), ("th", 10)):
        lines = sentences(lang)[: 500 // share]
        text = "".join(f"{line}\n" + "\n" * (n % 5 == 0) for n, line in enumerate(lines, 1))
        (folder / f"{lang}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def vocab(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published vocabulary of 130 pieces over the tiny corpus."""
    from xling.text.vocab import VocabConfig, run

    out = tmp_path_factory.mktemp("vocab") / "vocab"
    paths = {path.stem: (str(path),) for path in sorted(corpus.glob("*.txt"))}
    run(VocabConfig(corpora=paths, out=str(out), size=130, coverage=1.0))
    return out


@pytest.fixture(scope="session")
def shards(corpus: Path, vocab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published shards of the tiny corpus: en, ar and th."""
    from xling.corpora.binarize import BinarizeConfig, run

    out = tmp_path_factory.mktemp("shards") / "shards"
    paths = {path.stem: (str(path),) for path in sorted(corpus.glob("*.txt"))}
    run(BinarizeConfig(vocab=str(vocab), out=str(out), corpora=paths))
    return out


@pytest.fixture(scope="session")
def writer(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published encoder-decoder of en, ar and th after two updates."""
    from xling.core.settings import config
    from xling.training import train
    from xling.training.settings import PretrainConfig

    out = tmp_path_factory.mktemp("writer") / "model"
    shape = {"layers": 1, "dim": 48, "heads": 2, "ffn_dim": 96, "max_positions": 48, "precision": "fp32"}
    given: dict[str, Any] = {
        "data": str(shards),
        "out": str(out),
        "objectives": {"dae": {"tokens_per_sample": "48"}},
        "model": shape,
        "train": {"updates": 2, "warmup": 1, "batch_tokens": 512},
    }
    train.run(config.from_dict(PretrainConfig, given, "test"))
    return out


# Overrides of `xling pretrain` under which an update takes milliseconds.
TINY = (
    "model.layers=2",
    "model.dim=32",
    "model.heads=2",
    "model.ffn_dim=64",
    "model.max_positions=64",
    "model.precision=fp32",
    "objectives.mmlm.tokens_per_sample=32",
    "train.batch_tokens=512",
    "train.warmup=4",
    "train.log_every=5",
)


@pytest.fixture(scope="session")
def tiny() -> tuple[str, ...]:
    """Overrides that make `xling pretrain` train a tiny model."""
    return TINY


@pytest.fixture(scope="session")
def model(shards: Path, tiny: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published tiny model after 30 updates."""
    from xling.core.settings import config
    from xling.training.settings import PretrainConfig
    from xling.training.train import run

    out = tmp_path_factory.mktemp("model") / "model"
    words = [*tiny, f"data={shards}", f"out={out}", "train.updates=30", "train.lr=3e-3"]
    run(config.load(PretrainConfig, overrides=words))
    return out


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep digests and imported models out of the user's own cache."""
    os.environ.setdefault("XLING_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True, scope="session")
def _children_import_this_checkout() -> Iterator[None]:
    """Put this checkout first on the path of every child process."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    yield
    forked.close()


@pytest.fixture(scope="session")
def python() -> Run:
    """Run Python with this checkout on its path; arguments as for the interpreter."""
    return _python


def _python(
    *arguments: str, cwd: Path | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
