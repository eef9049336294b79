"""The steps from a survey to a model, its tables and its report, each choice with the rule that made it.

The steps are those of any pipeline (`xling.core.commands.pipeline`): the survey writes them as a YAML file, so a choice
can be read, and changed by ``STEP.key=value``. The Transformer's steps are those of ``recipes/evening.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xling.core import languages
from xling.core.commands import pipeline
from xling.core.settings import config
from xling.language.found import Found, shared_words
from xling.language.settings import LanguageConfig

NUM_RELATIVES = 3
LEAST_SHARED = 0.15
"""Share of running words that a language of another family must have in common to count as a relative."""
LEAST_PAIRS = 500
"""Rows of aligned text below which nothing is trained."""
LESS = 0.75
"""Share of the text or of the labels that is left to measure what more of them would bring."""
STATIC_SHARE, STATIC_MINUTES = 0.1, 24.0
BODY_SHARE = 0.55
ROWS_OF_AN_HOUR = 5000
TRANSFORMER = "evening.yaml"
BODY_PARAMETERS = 10.6e6
"""Weights of the layers of the recipe's body, 6 x 384; an update costs 6 operations a weight and token."""
EFFICIENCY = 0.5
"""Share of the product rate that training reaches with its teacher."""
FIT: Mapping[str, dict[str, Any]] = {
    "tag": {"epochs": 3},
    "intent_slots": {"epochs": 30},
    "classify": {"epochs": 10},
    "pair": {"epochs": 10},
}
"""Kind of a suite -> settings of fine-tuning on a static encoder, as in recipes/hour.yaml."""
SEARCH = {"centred": True, "distance": "csls", "match": 3}
SCORED_KINDS = (*FIT, "retrieval")


@dataclass
class Plan:
    """Steps of the pipeline, and why they are as they are.

    Attributes:
        steps: name -> step, as in a pipeline file.
        choices: what was chosen, its value, and its rule.
        relatives: languages that are read beside the language itself.
        models: name of a model in the tables -> its folder.
    """

    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    choices: list[tuple[str, str, str]] = field(default_factory=list)
    relatives: list[str] = field(default_factory=list)
    models: dict[str, str] = field(default_factory=dict)

    def choose(self, what: str, value: object, rule: str) -> None:
        """Note a choice."""
        self.choices.append((what, str(value), rule))


def make_plan(cfg: LanguageConfig, found: Found, kinds: Mapping[str, str], product_rate: float) -> Plan:
    """Return the steps for a language.

    Args:
        cfg: settings of ``xling language``.
        found: what there is.
        kinds: suite -> its kind.
        product_rate: of this machine's matrix products on one core, operations a second.
    """
    plan = Plan()
    plan.relatives = list(cfg.relatives) or _relatives(cfg, found)
    plan.choose(
        "relatives",
        ", ".join(plan.relatives) or "none",
        "given"
        if cfg.relatives
        else f"aligned text at hand; the same family and script first, then a share of "
        f"{LEAST_SHARED:.0%} of the running words in common; at most {NUM_RELATIVES}",
    )
    _add_corpora(plan, cfg, found)
    suites = [name for name in found.suites if kinds[name] in SCORED_KINDS]
    if found.num_pairs(cfg.lang) >= LEAST_PAIRS:
        _add_static(plan, cfg, found, suites, kinds)
        if cfg.body:
            _add_transformer(plan, cfg, suites, kinds, product_rate)
        else:
            plan.choose(
                "Transformer", "none", "no body= was given; from random weights it stays at its controls here"
            )
    else:
        plan.choose(
            "models",
            "none",
            f"{found.num_pairs(cfg.lang):,} rows of aligned text; at least {LEAST_PAIRS} are needed",
        )
    _add_report(plan, cfg)
    return plan


def _relatives(cfg: LanguageConfig, found: Found) -> list[str]:
    ours = languages.get(cfg.lang)
    ranked = []
    for code in found.pairs:
        if code in (cfg.lang, cfg.source) or code not in languages.LANGUAGES:
            continue
        other, shared = languages.LANGUAGES[code], shared_words(found, cfg.lang, code)
        is_family = other.family == ours.family and other.script == ours.script
        if found.num_pairs(code) >= LEAST_PAIRS and (is_family or shared >= LEAST_SHARED):
            ranked.append((not is_family, -shared, code))
    return [code for *_, code in sorted(ranked)[:NUM_RELATIVES]]


def _add_corpora(plan: Plan, cfg: LanguageConfig, found: Found) -> None:
    leaks = {}
    if found.suites:
        plan.steps["leaks"] = {
            "stage": "eval leaks",
            "config": {"data": str(cfg.data), "out": f"{cfg.out}/leaks", "suites": found.suites},
        }
        leaks = {"after": ["leaks"]}
    remote = ["wiki:", f"cc-index:{cfg.dump}"] if cfg.size else []
    for code in (cfg.lang, *plan.relatives, cfg.source):
        uris = [*found.texts.get(code, ()), *(remote if code == cfg.lang else ())]
        if uris:
            settings: dict[str, Any] = {"lang": code, "source": uris, "out": f"{cfg.out}/corpora/{code}"}
            if leaks:
                settings["settings"] = {"contamination": {"leaks": f"{cfg.out}/leaks"}}
            if remote and code == cfg.lang:
                settings["size"] = cfg.size
            plan.steps[f"text_{code}"] = {"stage": "corpus mono", **leaks, "config": settings}
    if not any(name.startswith("text_") for name in plan.steps):
        plan.choose("corpora", "none", "no running text at hand, and size= was not given")


def _add_static(
    plan: Plan, cfg: LanguageConfig, found: Found, suites: list[str], kinds: Mapping[str, str]
) -> None:
    minutes = round(min(STATIC_MINUTES, cfg.hours * 60 * STATIC_SHARE), 2)
    plan.choose(
        "minutes of the static encoder", minutes, f"{STATIC_SHARE:.0%} of hours=, at most {STATIC_MINUTES:g}"
    )
    langs = [cfg.lang, cfg.source, *plan.relatives]
    sources = sorted({name for code in langs for name in found.pairs.get(code, ())})
    for name, share in (("", 1.0), ("_less", LESS)):
        rows = {"data": str(cfg.data), "out": f"{cfg.out}/rows{name}", "langs": langs, "sources": sources}
        rows |= {"held_out": 0.02} if share == 1 else {"share": share}
        plan.steps[f"rows{name}"] = {"stage": "corpus nway", "config": rows}
        plan.steps[f"static{name}"] = {
            "stage": "pretrain static",
            "after": [f"rows{name}"],
            "config": {
                "data": f"{cfg.out}/rows{name}",
                "out": f"{cfg.out}/models/static{name}",
                **({"updates": cfg.updates} if cfg.updates else {"minutes": minutes}),
                "model": {"dim": 192, "bits": 18},
            },
        }
    plan.models["static"] = f"{cfg.out}/models/static"
    linked = [name for name in sources if name not in ("own", "dictionary", "udhr")]
    if linked:
        plan.steps["links"] = {
            "stage": "corpus links",
            "config": {
                "data": str(cfg.data),
                "out": f"{cfg.out}/links",
                "source": cfg.source,
                "sources": linked,
            },
        }
    rows_of_labels = max(200, int(ROWS_OF_AN_HOUR * cfg.hours))
    plan.choose(
        "training rows of a suite", f"{rows_of_labels:,}", f"{ROWS_OF_AN_HOUR:,} for each hour of hours="
    )
    for suite in suites:
        num_rows = min(rows_of_labels, found.num_labels.get(suite, rows_of_labels))
        common = _evaluation(cfg, suite, kinds[suite], num_rows, has_links=bool(linked))
        controls = [
            "random",
            "majority",
            *(["ngram"] if kinds[suite] in FIT else []),
            *(["dictionary"] if linked else []),
        ]
        dictionary = {"dictionary": f"{cfg.out}/links"} if linked else {}
        plan.steps[f"{suite}_static"] = _step(
            common
            | dictionary
            | {"systems": ["pretrained", *controls], "checkpoints": [f"static={plan.models['static']}"]},
            f"{cfg.out}/scores/static/{suite}",
            ["static", *(["links"] if linked else [])],
        )
        less = {"systems": ["pretrained"]}
        plan.steps[f"{suite}_less_text"] = _step(
            common | less | {"checkpoints": [f"static={cfg.out}/models/static_less"]},
            f"{cfg.out}/less/text/{suite}",
            ["static_less", *(["links"] if linked else [])],
        )
        if kinds[suite] in FIT:
            plan.steps[f"{suite}_less_labels"] = _step(
                common
                | less
                | {
                    "checkpoints": [f"static={plan.models['static']}"],
                    "train_rows": max(1, int(num_rows * LESS)),
                },
                f"{cfg.out}/less/labels/{suite}",
                ["static", *(["links"] if linked else [])],
            )
        if suite in found.own_labels and kinds[suite] in FIT:
            plan.steps[f"{suite}_own_labels"] = _step(
                common
                | less
                | {"checkpoints": [f"static={plan.models['static']}"]}
                | {"source": cfg.lang, "protocol": "in_language"},
                f"{cfg.out}/scores/own_labels/{suite}",
                ["static", *(["links"] if linked else [])],
            )
    plan.steps["held_out"] = _step(
        {
            "retrieval": [f"{cfg.out}/rows/held_out"],
            "name": "held_out",
            "checkpoints": [f"static={plan.models['static']}"],
            "systems": ["pretrained", "random"],
            **SEARCH,
        },
        f"{cfg.out}/scores/static/held_out",
        ["rows", "static"],
        optional=False,
    )
    plan.steps["export_static"] = {
        "stage": "export hf",
        "after": ["static"],
        "config": {"checkpoint": plan.models["static"], "out": f"{cfg.out}/export/static"},
    }


def _evaluation(
    cfg: LanguageConfig,
    suite: str,
    kind: str,
    num_rows: int,
    has_links: bool,
    fit: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the settings of ``xling eval`` that all systems of a suite share."""
    settings: dict[str, Any] = {
        "suites": [suite],
        "data": str(cfg.data),
        "langs": [cfg.lang],
        "source": cfg.source,
    }
    if kind not in FIT:
        return settings | SEARCH
    chosen = dict(FIT[kind] if fit is None else fit)
    if fit is None and has_links and kind in ("tag", "intent_slots"):
        chosen["project"] = f"{cfg.out}/links"
    settings |= {"seeds": list(cfg.seeds), "train_rows": num_rows, "fit": chosen}
    return settings | ({"train_split": "dev"} if suite == "xsid" else {})


def _step(settings: dict[str, Any], out: str, after: list[str], optional: bool = True) -> dict[str, Any]:
    step: dict[str, Any] = {"stage": "eval", "after": after, "config": settings | {"out": out}}
    return step | ({"optional": True} if optional else {})


def _add_transformer(
    plan: Plan, cfg: LanguageConfig, suites: list[str], kinds: Mapping[str, str], product_rate: float
) -> None:
    """Add the steps of the recipe that make the model; its scores and its report are those of this plan."""
    raw = config.read_yaml(pipeline.RECIPES_FOLDER / TRANSFORMER)
    langs = ",".join([cfg.lang, *plan.relatives])
    names = {
        name: step
        for name, step in raw["steps"].items()
        if step["stage"] not in ("eval", "report", "corpus nway", "pretrain static")
    }
    values = {
        **raw["vars"],
        "data": str(cfg.data),
        "body": cfg.body,
        "out": f"{cfg.out}/transformer",
        "langs": langs,
    }
    made = pipeline.substitute(names, values, pipeline.RECIPES_FOLDER / TRANSFORMER)
    static = f"{cfg.out}/transformer/static"
    seconds = cfg.hours * 3600 * BODY_SHARE
    tokens = seconds * product_rate * EFFICIENCY / (6 * BODY_PARAMETERS)
    trainings = {name: step for name, step in made.items() if step["stage"] == "pretrain"}
    total = sum(
        int(step["config"]["train"]["updates"]) * _tokens_of_update(step) for step in trainings.values()
    )
    scale = min(1.0, tokens / total)
    for name, step in made.items():
        step["after"] = [each for each in step.get("after", []) if each in made]
        text = _replaced(step, static, plan.models["static"])
        if name in trainings:
            train = text["config"]["train"]
            train["updates"] = max(1, int(int(train["updates"]) * scale))
            train["warmup"] = min(int(train["warmup"]), train["updates"] // 10)
            text["after"] = [*text["after"], "static"]
        plan.steps[f"transformer_{name}"] = text | {
            "after": [each if each == "static" else f"transformer_{each}" for each in text["after"]]
        }
    last = f"transformer_{list(trainings)[-1]}"
    plan.models["transformer"] = plan.steps[last]["config"]["out"]
    plan.choose(
        "updates of the Transformer",
        " and ".join(
            f"{plan.steps[f'transformer_{name}']['config']['train']['updates']:,}" for name in trainings
        ),
        f"those of recipes/{TRANSFORMER}, or what fits into {BODY_SHARE:.0%} of hours= at {EFFICIENCY:g} of this "
        f"core's {product_rate / 1e9:.0f} GFLOP/s",
    )
    for suite in suites:
        fit = {"lr": 5e-5, "epochs": 3, "batch_rows": 32}
        common = _evaluation(cfg, suite, kinds[suite], max(200, int(ROWS_OF_AN_HOUR * cfg.hours)), False, fit)
        common = {key: value for key, value in common.items() if key != "match"}
        plan.steps[f"{suite}_transformer"] = _step(
            common
            | {"systems": ["pretrained"]}
            | {
                "checkpoints": [
                    f"transformer={plan.models['transformer']}",
                    f"body={cfg.out}/transformer/body",
                ]
            },
            f"{cfg.out}/scores/transformer/{suite}",
            [last],
        )
    plan.steps["export_transformer"] = {
        "stage": "export hf",
        "after": [last],
        "config": {"checkpoint": plan.models["transformer"], "out": f"{cfg.out}/export/transformer"},
    }


def _tokens_of_update(step: Mapping[str, Any]) -> int:
    return int(step["config"]["train"]["batch_tokens"])


def _replaced(value: Any, old: str, new: str) -> Any:
    """Return settings with one path in place of another."""
    if isinstance(value, Mapping):
        return {key: _replaced(each, old, new) for key, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, old, new) for each in value]
    return new if value == old else value


def _add_report(plan: Plan, cfg: LanguageConfig) -> None:
    scored = [name for name, step in plan.steps.items() if step["stage"] == "eval"]
    if scored:
        name = languages.get(cfg.lang).name
        plan.steps["details"] = {
            "stage": "report",
            "after": scored,
            "config": {
                "runs": [f"{cfg.out}/scores"],
                "out": f"{cfg.out}/details",
                "title": f"All scores: {name}",
            },
        }
    plan.steps["report"] = {
        "stage": "language report",
        "after": ["details"] if scored else list(plan.steps),
        "config": {"folder": cfg.out},
    }
