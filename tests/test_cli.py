"""The command line: exit codes, one-line errors, help, and what it does not import."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from xling import cli
from xling.core.commands.runner import STAGES, load
from xling.core.output import manifest

Xling = Callable[..., tuple[int, str, str]]


@pytest.fixture
def xling(capsys: pytest.CaptureFixture[str]) -> Xling:
    """Run a command in this process; returns exit code, standard output and standard error."""

    def run(*words: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def refuse(xling: Xling) -> Callable[..., None]:
    """Check that a command ends with code 2 and one line that matches."""

    def check(pattern: str, *words: str | Path) -> None:
        code, out, err = xling(*words)
        last = [line for line in err.splitlines() if not line.startswith("binarize ")]
        assert (code, out) == (2, ""), err
        assert len(last) == 1, err
        assert re.fullmatch(f"xling: .*{pattern}.*", last[0]), err

    return check


@pytest.mark.parametrize("name", list(STAGES))
def test_every_stage_has_help(xling: Xling, name: str) -> None:
    code, out, err = xling(*name.split(), "--help")
    assert (code, err) == (0, "") and STAGES[name].help in out
    assert set(STAGES[name].positional.split()) <= set(load(STAGES[name].config).__dataclass_fields__)


def test_bare_words_fill_several_settings(xling: Xling) -> None:
    code, text, _ = xling("config", "export", "hf", "runs/a", "runs/b")
    assert code == 0 and json.loads(text) == {
        "checkpoint": "runs/a",
        "out": "runs/b",
        "scores": [],
        "pooling": "mean",
    }
    code, _, err = xling("export", "hf", "runs/a", "runs/b", "runs/c")
    assert code == 2 and "cannot use 'runs/c'" in err and "Traceback" not in err


def test_several_bare_words_are_taken_as_they_are(xling: Xling) -> None:
    words = ["r/\U0001f600 a/t", 'r/"b", c', "r/\u0e01:d"]
    code, text, _ = xling("config", "report", *words, "out=o")
    assert code == 0 and json.loads(text)["runs"] == words


def test_settings_of_slurm_without_a_cluster_are_refused(xling: Xling, tmp_path: Path) -> None:
    stage = ["toyworld", f"out={tmp_path}/raw", "langs=en", "num_docs=2"]
    (tmp_path / "p.yaml").write_text(
        f"steps: {{raw: {{stage: toyworld, config: {{out: {tmp_path}/raw}}}}}}\n"
    )
    for words in (stage, ["run", str(tmp_path / "p.yaml")]):
        code, _, err = xling(*words, "slurm.mem_gb=3")
        assert code == 2 and "slurm.mem_gb=3 without cluster=; valid: cluster=slurm" in err
    assert not (tmp_path / "raw").exists()
    (tmp_path / "p.yaml").write_text("vars: {out: o}\n")
    code, _, err = xling("run", str(tmp_path / "p.yaml"))
    assert code == 2 and "p.yaml has no steps; valid: steps:" in err


def test_config_prints_the_settings_and_runs_nothing(xling: Xling, tmp_path: Path) -> None:
    out = tmp_path / "vocab"
    code, text, err = xling("config", "vocab", "corpora.no=no.txt", f"out={out}", "size=12", "alpha=1e-1")
    made = json.loads(text)
    assert (code, err) == (0, "") and not out.exists()
    assert made["corpora"] == {"nb": ["no.txt"]} and made["size"] == 12 and made["alpha"] == 0.1


def test_settings_may_be_written_as_options(xling: Xling) -> None:
    code, text, _ = xling("config", "vocab", "--corpora.en=a", "--out=b", "--size=7", "seed=3")
    made = json.loads(text)
    assert code == 0 and (made["out"], made["size"], made["seed"]) == ("b", 7, 3)


def test_recipe_is_found_by_path_and_overridden(xling: Xling, tmp_path: Path) -> None:
    recipe = tmp_path / "my.yaml"
    recipe.write_text("corpora: {en: a.txt, 'zh_Hant': b.txt}\nout: x\nsize: 5\n")
    code, text, _ = xling("config", "vocab", recipe, "size=6")
    assert code == 0 and json.loads(text)["corpora"] == {"en": ["a.txt"], "zh_Hant": ["b.txt"]}
    assert json.loads(text)["size"] == 6


@pytest.mark.parametrize(
    ("words", "pattern"),
    [
        ("corpsu", r"unknown command .corpsu.; fix: did you mean .corpus.( or|\?)"),
        ("vocb out=x", r"unknown command 'vocb'.*did you mean 'vocab'\?"),
        ("corpus moon", r"unknown command 'corpus moon'.*did you mean 'corpus mono'"),
        ("config vocb", r"unknown command 'vocb'"),
        ("config", r"names no command; valid: xling config COMMAND"),
        ("eval lst", r"unknown word after `xling eval` 'lst'; fix: did you mean 'list'"),
        ("eval lst mine", r"'lst'; fix: did you mean 'list'"),
        ("eval xnl,panx", r"'xnl'; fix: did you mean 'xnli'"),
        ("eval clases train=x", r"'clases'; fix: did you mean 'classes'"),
        ("finetune generat out=x", r"'generat'; fix: did you mean 'generate'"),
        ("pretrain statc out=x", r"unknown word after `xling pretrain` 'statc'; fix: did you mean 'static'"),
        ("language reprt", r"unknown word after `xling language` 'reprt'; fix: did you mean 'report'"),
        ("help al", r"unknown command 'al'; fix: did you mean 'all'"),
        ("help evl", r"unknown command 'evl'; fix: did you mean 'eval'"),
        ("vocab siez=3", r"unknown setting 'siez'.*did you mean 'size'"),
        ("vocab out=x corpora.en=x size=many", r"size='many'; valid: a value of type int"),
        ("vocab", r"out not given"),
        ("vocab stray", r"vocab cannot use 'stray'"),
        ("vocab absent.yaml", r"no recipe at absent.yaml"),
        ("vocab out=x corpora.sww=a.txt", r"unknown language 'sww'"),
        ("vocab out=x corpora={}", r"no text to learn a vocabulary from"),
        ("vocab out=x workers=0", r"workers=0; valid: a whole number from 1, or auto"),
        ("vocab out=x workers=x", r"workers=x"),
        ("vocab out=x cluster=slurmm", r"unknown cluster 'slurmm'.*'slurm'"),
        ("binarize vocab=v out=o", r"nothing to binarize"),
        ("binarize vocab=v out=o pairs.en-en=a,b", r"'en-en' is not a language pair"),
        ("binarize vocab=v out=o pairs.en-swx=a,b", r"unknown language 'swx'"),
        ("run absent.yaml", r"no recipe at absent.yaml"),
        ("run absent.yaml --help", r"no recipe at absent.yaml"),
        ("run no_such_recipe", r"unknown recipe 'no_such_recipe'"),
    ],
)
def test_wrong_words_are_one_line(
    refuse: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, pattern: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refuse(pattern, *words.split())
    assert list(tmp_path.iterdir()) == []


def test_recipes_say_what_they_are_for(xling: Xling) -> None:
    code, listed, _ = xling("run")
    assert code == 0
    assert xling("run", "--help")[1] == listed
    assert (
        "  monotrans           Transfer by monolingual models alone (Artetxe et al. 2020), on SYNTHETIC"
        in listed
    )
    assert "xlmr_base" not in listed, "no pipeline"
    code, about, _ = xling("run", "monotrans", "--help")
    assert code == 0
    assert about.startswith(
        "Transfer by monolingual models alone (Artetxe et al. 2020), on SYNTHETIC text: (1)"
    )
    assert "\n  xling run monotrans out=DIR body.train.updates=8000\n" in about


@pytest.mark.parametrize(
    ("content", "pattern"),
    [
        (b"", r"bad.txt is empty"),
        (b"\n \n\n", r"corpora.en=.*bad.txt holds no text"),
        (b"fine\ncaf\xe9\n", r"bad.txt line 2: byte 0xe9 at 3 is not UTF-8.*fix: convert it"),
        (b"\xff\xef\xfe\n", r"bad.txt line 1: byte 0xff at 0 is not UTF-8"),
    ],
)
def test_bad_text_names_file_and_line(
    refuse: Callable[..., None], tmp_path: Path, vocab: Path, content: bytes, pattern: str
) -> None:
    bad, out = tmp_path / "bad.txt", tmp_path / "out"
    bad.write_bytes(content)
    refuse(pattern, "vocab", f"corpora.en={bad}", f"out={out}")
    refuse(pattern, "binarize", f"corpora.en={bad}", f"vocab={vocab}", f"out={out}")
    assert [p.name for p in tmp_path.iterdir()] == ["bad.txt"]


def test_cut_off_archives_are_refused(refuse: Callable[..., None], tmp_path: Path) -> None:
    import gzip

    bad = tmp_path / "bad.txt.gz"
    bad.write_bytes(gzip.compress(os.urandom(9000).hex().encode())[:-500])
    refuse(r"bad.txt.gz after line 0: .*fix: get the file again", "vocab", f"corpora.en={bad}", "out=x")


def test_text_that_is_missing_or_too_short(refuse: Callable[..., None], tmp_path: Path) -> None:
    refuse(
        r"nothing to read at '.*/absent\*'", "vocab", f"corpora.en={tmp_path}/absent*", f"out={tmp_path}/x"
    )
    (tmp_path / "short.txt").write_text("too short\n")
    words = [f"corpora.en={tmp_path}/short.txt", f"out={tmp_path}/x", "size=7000"]
    refuse(r"size=7000: .*at most size=.*; fix: size=\d+, or give more text", "vocab", *words)
    assert [p.name for p in tmp_path.iterdir()] == ["short.txt"]


def test_sides_of_unequal_length_are_refused(
    refuse: Callable[..., None], tmp_path: Path, vocab: Path
) -> None:
    (tmp_path / "a").write_text("one\ntwo\nthree\n")
    (tmp_path / "b").write_text("moja\nmbili\n")
    words = [f"pairs.en-sw={tmp_path}/a,{tmp_path}/b", f"vocab={vocab}", f"out={tmp_path}/x"]
    refuse(
        r"b ends at line 2, before its other side; valid: files with equal line counts", "binarize", *words
    )
    refuse(r"pair en-sw: 1 files; valid: two files", "binarize", f"pairs.en-sw={tmp_path}/a", *words[1:])
    assert not (tmp_path / "x").exists()


def test_a_recipe_with_a_wrong_key(refuse: Callable[..., None], tmp_path: Path) -> None:
    recipe = tmp_path / "my.yaml"
    recipe.write_text("data: x\nout: y\ntrain: {updatse: 3}\n")
    refuse(r"my.yaml:3: unknown setting 'train.updatse'.*did you mean 'train.updates'", "pretrain", recipe)
    recipe.write_text("out: y\nout: z\n")
    refuse(r"'out' is given twice.*line 2", "pretrain", recipe)


def test_a_missing_or_cut_shard(
    refuse: Callable[..., None], tmp_path: Path, shards: Path, tiny: list[str]
) -> None:
    data, out = tmp_path / "data", f"out={tmp_path}/out"
    shutil.copytree(shards, data)
    (data / "en" / "train.bin").unlink()
    refuse(r"en/train.bin is missing.*run 'binarize' again", "pretrain", f"data={data}", out, *tiny)
    shutil.copy(shards / "en" / "train.bin", data / "en" / "train.bin")
    os.truncate(data / "th" / "valid.bin", 4)
    refuse(r"th/valid.bin has 4 bytes; valid: \d+", "pretrain", f"data={data}", out, *tiny)
    refuse(
        r"data=.*absent: there is no such file or folder", "pretrain", f"data={tmp_path}/absent", out, *tiny
    )
    assert [p.name for p in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(
    ("setting", "pattern"),
    [
        ("langs=sw", r"unknown language in .*: 'sw'; valid: ar, en, th"),
        ("objectives={mmml: {}}", r"unknown objective 'mmml'.*did you mean 'mmlm'"),
        ("objectives.mmlm.alhpa=1", r"objectives.mmlm: unknown setting 'alhpa'; fix: .*; valid: alpha, data"),
        ("objectives.mmlm.mask_prob=1.5", r"mask_prob=1.5; valid: a share from 0 to 1"),
        ("objectives.mmlm.random_token_prob=.95", r"at most 1 in all"),
        ("objectives.mmlm.tokens_per_sample=65", r"tokens_per_sample=65 with model.max_positions=64"),
        ("train.batch_tokens=31", r"train.batch_tokens=31 with tokens_per_sample=32"),
        ("model.heads=3", r"model.dim=32 with model.heads=3; valid: a multiple"),
        ("model.dropout=1", r"model.dropout=1.0; valid: a share"),
        ("train.updates=0", r"train.updates=0; valid: a whole number from 1"),
        (
            "train.lr=1e30",
            r"the gradients are not finite after \d+ updates, 10 times.*fix: lower train.lr=1e\+30",
        ),
    ],
)
def test_wrong_settings_of_training(
    refuse: Callable[..., None], tmp_path: Path, shards: Path, tiny: list[str], setting: str, pattern: str
) -> None:
    others = [word for word in tiny if word.partition("=")[0] != setting.partition("=")[0]]
    refuse(pattern, "pretrain", f"data={shards}", f"out={tmp_path}/out", *others, setting)
    assert not (tmp_path / "out").exists()


def test_an_output_that_others_made_is_refused_before_the_work(
    refuse: Callable[..., None], tmp_path: Path, corpus: Path, vocab: Path, shards: Path, tiny: list[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    pattern = r"exists and was not made by xling; fix: choose another out="
    text, out = f"corpora.en={corpus}/en.txt", f"out={tmp_path}"
    refuse(pattern, "vocab", text, out)
    refuse(pattern, "binarize", text, f"vocab={vocab}", out)
    refuse(pattern, "pretrain", f"data={shards}", out, *tiny)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_checkpoint_of_another_vocabulary(
    refuse: Callable[..., None], tmp_path: Path, model: Path, shards: Path, tiny: list[str]
) -> None:
    other = tmp_path / "model"
    shutil.copytree(model, other, ignore=shutil.ignore_patterns("manifest.json"))
    lines = (other / "dict.txt").read_text().splitlines()
    (other / "dict.txt").write_text("\n".join(reversed(lines)) + "\n")
    pattern = r"model.pt was trained with vocabulary [0-9a-f]{12}, but .* holds [0-9a-f]{12}"
    refuse(pattern, "pretrain", f"data={shards}", f"out={tmp_path}/out", f"init={other}", *tiny)
    assert not (tmp_path / "out").exists()


def test_a_recipe_of_a_stage_is_no_pipeline(refuse: Callable[..., None]) -> None:
    refuse(
        r"xlmr_base.yaml is a recipe of the stage 'pretrain'.*fix: xling pretrain xlmr_base.yaml",
        "run",
        "xlmr_base",
    )
    refuse(r"fix: xling corpus parallel parallel.yaml", "run", "parallel")


def test_a_folder_of_hugging_face_is_recognised(refuse: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    refuse(
        rf"fix: .*xling import hf {tmp_path} out=DIR",
        "export",
        "hf",
        f"checkpoint={tmp_path}",
        f"out={tmp_path}/o",
    )


def test_a_whole_number_may_be_written_with_an_exponent(xling: Xling) -> None:
    words = ["config", "vocab", "corpora.en=a", "out=x"]
    assert json.loads(xling(*words, "size=1e4")[1])["size"] == 10_000
    for wrong in ("1.5e0", "1e", "1e400", "nan", "12.0"):
        assert xling(*words, f"size={wrong}")[0] == 2


def test_a_second_run_does_nothing(xling: Xling, corpus: Path, tmp_path: Path) -> None:
    first = ["vocab", f"corpora.en={corpus}/en.txt", f"out={tmp_path}/v"]
    words = [*first, "size=50"]
    assert xling(*words)[0] == 0
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "v").iterdir()}
    assert xling(*words)[0] == 0
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "v").iterdir()}
    code, _, err = xling(*first, "size=51")
    assert code == 2 and "size=50, now 51" in err
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "v").iterdir()}
    assert xling(*first, "size=51", "overwrite=true")[0] == 0
    assert before != {p: p.stat().st_mtime_ns for p in (tmp_path / "v").iterdir()}


def test_a_pipeline_runs_its_steps_in_order(xling: Xling, corpus: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"vars: {{out: {tmp_path}/runs}}\n"
        "steps:\n"
        f"  shards: {{stage: binarize, after: [vocab], config: {{vocab: '${{out}}/vocab', out: '${{out}}/shards', "
        f"corpora: {{en: {corpus}/en.txt}}}}}}\n"
        f"  vocab: {{stage: vocab, config: {{out: '${{out}}/vocab', size: 50, corpora: {{en: {corpus}/en.txt}}}}}}\n"
    )
    code, _, err = xling("run", plan, "shards.valid_docs=3")
    assert code == 0
    steps = [line for line in err.splitlines() if line.startswith("[")]
    assert steps[::2] == ["[1/2] vocab: xling vocab", "[2/2] shards: xling binarize"]
    assert [line.partition(" ended after ")[0] for line in steps[1::2]] == steps[::2]
    made = json.loads((tmp_path / "runs" / "shards" / "manifest.json").read_text())
    assert made["config"]["valid_docs"] == 3


def test_a_wrong_setting_of_a_late_step_stops_the_pipeline_before_the_first(
    refuse: Callable[..., None], corpus: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"steps:\n  a: {{stage: vocab, config: {{out: {tmp_path}/v, size: 50, corpora: {{en: {corpus}/en.txt}}}}}}\n"
        f"  b: {{stage: binarize, after: [a], config: {{vokab: x, out: y}}}}\n"
    )
    refuse(r"step 'b': unknown setting 'vokab'.*did you mean 'vocab'", "run", plan)
    assert not (tmp_path / "v").exists()


_IMPORTS = """
import sys
import xling.cli
sys.exit(xling.cli.main({words!r}) or " ".join(sorted({heavy!r} & set(sys.modules))) or 0)
"""
_HEAVY = {"torch", "fairseq", "numpy", "polars", "datasets", "sentencepiece", "submitit"}


@pytest.mark.parametrize("words", [["--help"], ["vocb"]])
def test_nothing_heavy_is_imported_for_words(words: list[str]) -> None:
    program = _IMPORTS.format(words=words, heavy=_HEAVY)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == (2 if words == ["vocb"] else 0), done.stderr


_STAGES = """
import sys
from xling.core.commands.runner import STAGES, load
for name, stage in STAGES.items():
    if name not in ("pretrain", "swap", "translate", "finetune mt", "finetune generate", "umt", "back-translate"):
        load(stage.config)
        assert not {"torch", "fairseq"} & set(sys.modules), name
"""


def test_stages_that_need_no_model_are_resolved_without_torch() -> None:
    # A login node resolves settings and submits jobs.
    done = subprocess.run([sys.executable, "-c", _STAGES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_command_line_is_imported_in_half_a_second() -> None:
    # Processor time, since the machine may be busy with other things.
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "import xling.cli"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.5, times


def test_a_mistake_has_no_traceback_and_code_2_in_a_real_process() -> None:
    done = subprocess.run([sys.executable, "-m", "xling.cli", "vocb"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert re.fullmatch(r"xling: unknown command 'vocb'.*\n", done.stderr), done.stderr


def test_interrupting_says_how_to_go_on(tmp_path: Path) -> None:
    # A shell's background jobs, and so all their children, ignore SIGINT.
    words = ["env", "--default-signal=INT", sys.executable, "-m", "xling.cli", "corpus", "mono", "lang=en"]
    words += ["source=text:-", f"out={tmp_path}/en"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        try:
            child.stdin.write("some words\n" * 100_000)  # returns when the child reads: a pipe holds less
            time.sleep(0.5)
            child.send_signal(signal.SIGINT)
            child.wait(timeout=60)
            err = child.stderr.read() if child.stderr else ""
        finally:
            child.kill()
    assert child.returncode == 130
    assert err == "xling: interrupted; run the same command again to go on\n"


def test_a_closed_pipe_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m xling.cli --help | head -c 5", shell=True, capture_output=True, text=True
    )
    assert done.stderr == "" and len(done.stdout) == 5


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("{xling} --help >/dev/full", "No space left on device; fix: free space"),
        ("{xling} toyworld {small} out=/proc/x", "out=/proc/x: /proc/"),
        ("ulimit -f 1; {xling} toyworld {small} out={tmp}/toy", "File too large; fix: raise the limit"),
        ("{xling} toyworld {small} out={tmp}/" + "x" * 250, "File name too long; fix: choose a shorter name"),
    ],
)
def test_a_failing_disk_gives_one_line(tmp_path: Path, command: str, message: str) -> None:
    names = {
        "xling": f"{sys.executable} -m xling.cli",
        "small": "num_docs=4 num_pairs=8 num_ner=8 num_nli=10 langs=en,de",
    }
    names["tmp"] = str(tmp_path)
    done = subprocess.run(command.format(**names), shell=True, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if "s left" not in line]
    assert done.returncode == 2 and len(lines) == 1, done.stderr
    assert message.format(**names) in lines[0]
    assert list(tmp_path.iterdir()) == []


def test_a_word_of_two_may_be_written_as_an_option() -> None:
    for words in (["eval", "list"], ["eval", "--list"]):
        stage, rest = cli.find_stage([*words, "data=x"])
        assert (stage.name, rest) == ("eval list", ["data=x"])
    assert cli.find_stage(["eval", "--out", "list"])[0].name == "eval"


def test_two_runs_do_not_write_one_output(tmp_path: Path) -> None:
    """Five pairs started together: one of each makes the output, the other is refused and says who holds it."""
    sizes = ("num_docs=200", "num_pairs=200", "num_ner=100", "num_nli=100", "langs=en,de")
    for number in range(5):
        command = [sys.executable, "-m", "xling", "toyworld", f"out={tmp_path}/t{number}", *sizes]
        runs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        told = [run.communicate()[1] for run in runs]
        codes = [run.returncode for run in runs]
        assert 0 in codes
        assert not any("Traceback" in text for text in told)
        if 2 in codes:  # else one of the two had ended before the other began
            assert f"t{number} is being written by xling toyworld (process " in told[codes.index(2)]
        assert manifest.verify(tmp_path / f"t{number}").stage == "toyworld"
        assert not list(tmp_path.glob(".*"))


def test_the_version(xling: Xling) -> None:
    wanted = f"xling {metadata.version('xling')}\n"
    assert xling("--version") == (0, wanted, "")
    done = subprocess.run([sys.executable, "-m", "xling", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, wanted, "")


@pytest.mark.seconds
def test_installed_packages_fit_together() -> None:
    """``make install`` brings all that its packages ask for, but torchaudio: a wrong one stops transformers."""
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert re.fullmatch(r"fairseq-fixed \S+ requires torchaudio, which is not installed\.\n", done.stdout)
