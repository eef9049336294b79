"""Steps in one file: order, variables, overrides, circles."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.commands import pipeline
from xling.core.errors import UserError
from xling.slurm.sweep import distinct, expand
from xling.text.vocab import VocabConfig

_TEXT = """
vars:
  out: runs/a
  mono: ${out}/mono
steps:
  report: {stage: report, after: [vocab, raw], config: {runs: ["${out}", "${mono}/x"]}}
  vocab:
    stage: vocab
    after: [raw]
    recipe: RECIPE
    config: {corpora: {en: "${mono}/en.txt"}, out: "${out}/vocab", alpha: 0.5}
  raw: {stage: toyworld}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    recipe = tmp_path / "vocab.yaml"
    recipe.write_text("alpha: 0.7\nsize: 100\nscales: {big: {size: 9}}\ncorpora: {no: no.txt}\n")
    made = tmp_path / "pipeline.yaml"
    made.write_text(_TEXT.replace("RECIPE", str(recipe)))
    return made


def write(folder: Path, text: str) -> Path:
    path = folder / "pipeline.yaml"
    path.write_text(text)
    return path


def test_a_step_comes_after_the_ones_it_needs(path: Path) -> None:
    assert list(pipeline.read(path).steps) == ["raw", "vocab", "report"]


def test_settings_are_recipe_then_config_with_variables(path: Path) -> None:
    assert pipeline.read(path).settings("vocab") == VocabConfig(
        corpora={"nb": ("no.txt",), "en": ("runs/a/mono/en.txt",)}, out="runs/a/vocab", size=100, alpha=0.5
    )


def test_overrides_reach_variables_and_steps(path: Path) -> None:
    plan = pipeline.read(path, ["out=elsewhere", "vocab.alpha=0.1", "vocab.corpora.sw=a,b"])
    made = plan.settings("vocab")
    assert made.out == "elsewhere/vocab" and made.alpha == 0.1
    assert made.corpora == {"nb": ("no.txt",), "en": ("elsewhere/mono/en.txt",), "sw": ("a", "b")}
    assert plan.steps["report"].config == {"runs": ["elsewhere", "elsewhere/mono/x"]}


@pytest.mark.parametrize("override", ["outt=x", "vocb.alpha=1", "out.alpha=1", "vocab=x"])
def test_an_unknown_override_is_a_user_error(path: Path, override: str) -> None:
    with pytest.raises(UserError, match="unknown variable or step"):
        pipeline.read(path, [override])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps: {a: {stage: vocb}}", r"unknown command 'vocb'.*'vocab'"),
        ("steps: {a: {stage: vocab, after: [b]}}", r"unknown step in .*: 'b'"),
        (
            "steps: {a: {stage: vocab, after: [b]}, b: {stage: vocab, after: [a]}}",
            r"a, b wait for each other",
        ),
        ("steps: {a: {stage: vocab, after: [a]}}", r"a wait for each other"),
        ("steps: {a: {stage: vocab, afte: [a]}}", r"step 'a': unknown setting 'afte'.*'after'"),
        ("steps: {a: {config: {}}}", r"stage not given"),
        ("steps: {a: vocab}", r"steps.a='vocab'"),
        ("steps: [a]", r"steps=\['a'\]"),
        ("vars: {a: {b: c}}", r"vars.a=\{'b': 'c'\}"),
        ("stepz: {}", r"unknown setting 'stepz'.*'steps'"),
        ("steps: {a: {stage: vocab}, a: {stage: report}}", r"'a' is given twice"),
        ('steps: {a: {stage: vocab, config: {out: "${oot}"}}}', r"unknown variable in .*: 'oot'"),
        ('vars: {a: "${b}", b: x}', r"unknown variable in .*: 'b'"),
        (
            'vars: {a: x}\nsteps: {a: {stage: vocab, config: {x: 1, "${a}": 2}}}',
            r"two of the keys .* become the same name",
        ),
        ("base: none.yaml", r"no recipe at .*none.yaml"),
        ("base: sub/a.yaml", r"base sub/a.yaml; valid: the name of a file; fix: put the file into "),
    ],
)
def test_wrong_pipelines_are_user_errors(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        pipeline.read(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_variables_stand_in_keys(tmp_path: Path) -> None:
    text = 'vars: {l: sw}\nsteps: {a: {stage: vocab, config: {corpora: {"${l}": "${l}.txt"}, out: x}}}'
    plan = pipeline.read(write(tmp_path, text), ["l=eu"])
    assert plan.steps["a"].config["corpora"] == {"eu": "eu.txt"}


def test_a_file_lies_over_its_base(tmp_path: Path) -> None:
    base = "vars: {l: sw, out: x}\nsteps: {a: {stage: vocab, config: {out: '${out}', corpora: {en: '${l}.txt'}}}}"
    (tmp_path / "below.yaml").write_text(base)
    over = "base: below.yaml\nvars: {l: eu}\nsteps: {a: {config: {corpora: {fr: f.txt}}}}"
    plan = pipeline.read(write(tmp_path, over), ["out=y"])
    assert plan.steps["a"].config == {"out": "y", "corpora": {"en": "eu.txt", "fr": "f.txt"}}
    (tmp_path / "third.yaml").write_text("base: pipeline.yaml\nsteps: {a: {config: {corpora: {fr: g.txt}}}}")
    third = pipeline.read(tmp_path / "third.yaml", ["out=y"])
    assert third.steps["a"].config == {"out": "y", "corpora": {"en": "eu.txt", "fr": "g.txt"}}


@pytest.mark.parametrize("bases", [("a",), ("b", "a"), ("b", "c", "a")])
def test_a_circle_of_bases_is_an_error(tmp_path: Path, bases: tuple[str, ...]) -> None:
    for name, base in zip("abc", bases, strict=False):
        (tmp_path / f"{name}.yaml").write_text(f"base: {base}.yaml")
    with pytest.raises(UserError, match=r"a\.yaml: the file is its own base, over a\.yaml") as caught:
        pipeline.read(tmp_path / "a.yaml")
    assert f"remove base from {('a', *bases)[-2]}.yaml" in str(caught.value)


def test_a_wrong_setting_names_its_step(path: Path) -> None:
    plan = pipeline.read(path, ["vocab.alhpa=1"])
    with pytest.raises(UserError, match=r"step 'vocab': unknown setting 'alhpa'.*'alpha'"):
        plan.settings("vocab")


@given(st.data())
def test_any_graph_without_circles_is_ordered(tmp_path: Path, data: st.DataObject) -> None:
    names = [f"s{i}" for i in range(data.draw(st.integers(1, 8)))]
    needs = {
        n: data.draw(st.lists(st.sampled_from(names[:i]), unique=True)) if i else []
        for i, n in enumerate(names)
    }
    shuffled = data.draw(st.permutations(names))
    steps = ", ".join(f"{n}: {{stage: vocab, after: [{', '.join(needs[n])}]}}" for n in shuffled)
    order = list(pipeline.read(write(tmp_path, f"steps: {{{steps}}}")).steps)
    assert sorted(order) == names
    assert all(order.index(need) < order.index(name) for name in names for need in needs[name])


def test_a_file_says_what_it_is_swept_over_and_a_scale_is_a_variable(tmp_path: Path) -> None:
    text = """
vars: {seed: 1, alpha: 0.5}
sweep: {scale: [low, high], seed: [1, 2]}
scales:
  low: {vars: {alpha: 0.1}}
  high: {vars: {alpha: 0.9}}
steps:
  vocab: {stage: vocab, config: {corpora: {en: a.txt}, out: "v/${scale}", alpha: "${alpha}"}}
  other: {stage: vocab, after: [vocab], config: {corpora: {en: a.txt}, out: "o/${scale}-${seed}", seed: "${seed}"}}
"""
    path = write(tmp_path, text)
    assert pipeline.read_sweep(path) == {"scale": ("low", "high"), "seed": ("1", "2")}
    words = expand([], pipeline.read_sweep(path))
    plans = [pipeline.read(path, each) for each in words]
    assert [p.settings("other").out for p in plans] == ["o/low-1", "o/low-2", "o/high-1", "o/high-2"]
    settings = distinct([p.settings("vocab") for p in plans])  # the same for every seed
    assert [(s.out, s.alpha) for s in settings] == [("v/low", 0.1), ("v/high", 0.9)]
    joined, configs = pipeline.merge_pipelines(plans)
    assert list(joined.steps) == ["vocab", "vocab#2", "other", "other#2", "other#3", "other#4"]
    assert [joined.steps[name].after for name in joined.steps] == [
        (), (), ("vocab",), ("vocab",), ("vocab#2",), ("vocab#2",),
    ]  # fmt: skip
    assert configs["other#3"].out == "o/high-1"
    assert list(pipeline.merge_pipelines(plans[:1])[0].steps) == ["vocab", "other"]
    # What the words name is not swept as the file says.
    assert len(expand(["seed=3"], pipeline.read_sweep(path))) == 2
    assert [w[0] for w in expand(["sweep.seed=7"], {"seed": ("1", "2")})] == ["seed=7"]
    clashing = [pipeline.read(path, [*each, "vocab.out=v"]) for each in words]
    for refused in (pipeline.merge_pipelines, lambda them: distinct([p.settings("vocab") for p in them])):
        with pytest.raises(UserError, match="writes to out=v more than once"):
            refused(clashing)


def test_two_steps_do_not_share_an_output(tmp_path: Path) -> None:
    step = "{stage: vocab, config: {out: v, size: SIZE, corpora: {en: e}}}"
    path = write(tmp_path, f"steps:\n  a: {step.replace('SIZE', '9')}\n  b: {step.replace('SIZE', '8')}\n")
    with pytest.raises(UserError, match="the steps a and b write to the same out=v"):
        pipeline.merge_pipelines([pipeline.read(path)])


@pytest.mark.parametrize("name", ["nope", "steps.a.out", "a-b", "", " out"])
def test_a_variable_that_is_not_there_is_not_left_as_text(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, f'steps: {{a: {{stage: vocab, config: {{out: "${{{name}}}/x"}}}}}}\n')
    with pytest.raises(UserError, match="unknown variable in"):
        pipeline.read(path)


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("encoder", ("langs=sw,en",), {"scores"}),
        ("encoder", ("langs=sw,en", "report.runs=other"), set()),
        ("hour", (), set()),  # several evaluations: each table is printed when it is there
    ],
)
def test_the_table_of_a_report_is_not_printed_before_it(
    name: str, words: tuple[str, ...], expected: set[str]
) -> None:
    plan, configs = pipeline.merge_pipelines([pipeline.read(pipeline.recipes()[name], words)])
    assert pipeline.tables_printed_later(plan, configs) == expected
