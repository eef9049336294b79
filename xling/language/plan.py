"""The steps from a survey to a model, its tables and its report, each choice with the rule that made it.

The steps are those of any pipeline (`xling.core.commands.pipeline`): the survey writes them as a YAML file, so a choice
can be read, and changed by ``STEP.key=value``. The Transformer's steps are those of ``recipes/evening.yaml``.
"""

from collections.abc import Mapping
from typing import Any

from xling.core import languages
from xling.core.commands import pipeline
from xling.core.settings import config
from xling.language.body import num_parameters, shape_of
from xling.language.holdings import DICTIONARIES, Holdings
from xling.language.settings import LanguageConfig
from xling.language.text_steps import (
    AUDIT,
    MINED,
    SWITCHED,
    Plan,
    add_corpora,
    add_mining,
    add_switched,
    choose_relatives,
    downloaded_pairs,
    sources_of_sentences,
)
from xling.language.times import EFFICIENCY, TOKENS_OF_A_ROW, TRAINING

LESS = 0.75
"""Share of the text or of the labels that is left to measure what more of them would bring."""
STATIC_SHARE, STATIC_MINUTES = 0.1, 24.0
NARROW_DIM, WIDE_DIM, WIDE_MINUTES = 192, 512, 5
"""Numbers of a static vector, and minutes of training from which more of them are better (results.d/language.md)."""
BODY_SHARE, SCORES_SHARE = 0.4, 0.2
"""Of the hours, for the training of the Transformer and for its fine-tuning; static encoders take the rest."""
ROWS_OF_AN_HOUR, LEAST_ROWS, ROWS_OF_LABELLER = 5000, 200, 5000
"""Training rows of a suite: for each hour, at least, and from which on the Transformer labels words and pairs of texts
(with 500 rows the static encoder is better, with 8,000 both together are; docs/results.d/language.md, evening.md)."""
TRANSFORMER = "evening.yaml"
FIT: Mapping[str, dict[str, Any]] = {
    "tag": {"epochs": 3},
    "intent_slots": {"epochs": 30},
    "classify": {"epochs": 10},
    "pair": {"epochs": 10},
}
"""Kind of a suite -> settings of fine-tuning on a static encoder, as in recipes/hour.yaml."""
TRANSFORMER_FIT: Mapping[str, Any] = {"lr": 5e-5, "epochs": 3, "batch_rows": 32}
NEIGHBOURS_FIT: Mapping[str, Any] = {"text_features": "neighbours"}
"""For texts with one class, of which a language has some hundreds with a label."""
JOINED = "joined"
JOINED_KINDS = ("tag", "classify", "pair")
"""Kinds of suites for which the Transformer is fine-tuned together with the static encoder."""
SEARCH: Mapping[str, Any] = {"centred": True, "distance": "csls", "match": 3}
SCORED_KINDS = (*FIT, "retrieval")


def make_plan(cfg: LanguageConfig, holdings: Holdings, kinds: Mapping[str, str], product_rate: float) -> Plan:
    """Return the steps for a language.

    Args:
        cfg: settings of ``xling language``.
        holdings: text and test sets.
        kinds: suite -> its kind.
        product_rate: of this machine's matrix products on one core, operations a second.
    """
    plan = Plan()
    choose_relatives(plan, cfg, holdings)
    add_corpora(plan, cfg, holdings)
    suites = [name for name in holdings.suites if kinds[name] in SCORED_KINDS]
    if (num_pairs := holdings.num_pairs(cfg.lang) + holdings.downloads) >= cfg.least:
        _add_static(plan, cfg, holdings, suites, kinds)
        if cfg.body:
            _add_transformer(plan, cfg, holdings, suites, kinds, product_rate)
        else:
            plan.choose(
                "Transformer", "none", "no body= was given; from random weights it stays at its controls here"
            )
    else:
        plan.choose(
            "models",
            "none",
            f"{num_pairs:,} rows of aligned text; at least {cfg.least} are needed. Bring translated "
            f"sentences: {cfg.least} train an encoder in minutes, and the verses of a New Testament are 8,000",
        )
    _add_report(plan, cfg)
    return plan


def _add_static(
    plan: Plan, cfg: LanguageConfig, holdings: Holdings, suites: list[str], kinds: Mapping[str, str]
) -> None:
    minutes = round(min(STATIC_MINUTES, cfg.hours * 60 * STATIC_SHARE), 2)
    plan.choose(
        "minutes of the static encoder", minutes, f"{STATIC_SHARE:.0%} of hours=, at most {STATIC_MINUTES:g}"
    )
    dim = WIDE_DIM if minutes >= WIDE_MINUTES else NARROW_DIM
    plan.choose("numbers of a vector", dim, f"{WIDE_DIM} from {WIDE_MINUTES} minutes, else {NARROW_DIM}")
    langs = [cfg.lang, cfg.source, *plan.relatives]
    downloaded, after = downloaded_pairs(plan)
    sources = sorted({name for code in langs for name in holdings.pairs.get(code, ())})
    for name, of_rows in (("", {"held_out": 0.02}), ("_less", {"share": LESS})):
        rows, encoder = f"{cfg.out}/rows{name}", f"{cfg.out}/models/static{name}"
        settings = {
            "data": str(cfg.data),
            "out": rows,
            "langs": langs,
            "sources": sources,
            **of_rows,
            **downloaded,
        }
        plan.steps[f"rows{name}"] = {"stage": "corpus nway", "after": after, "config": settings}
        settings = {"data": rows, "out": encoder, "model": {"dim": dim, "bits": 18}}
        settings |= {"updates": cfg.updates} if cfg.updates else {"minutes": minutes}
        plan.steps[f"static{name}"] = {
            "stage": "pretrain static",
            "after": [f"rows{name}"],
            "config": settings,
        }
    plan.models["static"] = f"{cfg.out}/models/static"
    linked = [name for name in sources if name not in (*DICTIONARIES, "udhr")]
    if linked or downloaded:
        links = {"data": str(cfg.data), "out": f"{cfg.out}/links", "source": cfg.source, "sources": linked}
        links |= {"langs": [cfg.lang, *plan.relatives], **downloaded}
        plan.steps["links"] = {"stage": "corpus links", "after": after, "config": links}
    plan.choose(
        "training rows of a suite", f"{_most_rows(cfg):,}", f"{ROWS_OF_AN_HOUR:,} for each hour of hours="
    )
    for suite in suites:
        _add_static_scores(plan, cfg, holdings, suite, kinds[suite])
    add_mining(plan, cfg)
    add_switched(plan, cfg, holdings)
    held_out = {"retrieval": [f"{cfg.out}/rows/held_out"], "name": "held_out", **SEARCH}
    held_out |= {"checkpoints": [f"static={plan.models['static']}"], "systems": ["pretrained", "random"]}
    plan.steps["held_out"] = _step(
        held_out, f"{cfg.out}/scores/static/held_out", ["rows", "static"], optional=False
    )
    _add_export(plan, cfg, "static", "static")


def _add_static_scores(plan: Plan, cfg: LanguageConfig, holdings: Holdings, suite: str, kind: str) -> None:
    """Add the scores of a suite: with controls, with less text, with fewer labels, with the language's own labels."""
    most = _most_rows(cfg)
    num_rows = min(most, holdings.num_labels.get(suite, most))
    links = ["links"] if "links" in plan.steps else []
    common = _evaluation(cfg, suite, kind, num_rows, bool(links))
    model: dict[str, Any] = {"systems": ["pretrained"], "checkpoints": [f"static={plan.models['static']}"]}
    less_text = {"checkpoints": [f"static={cfg.out}/models/static_less"]}
    controls = ["random", "majority", *(["ngram"] if kind in FIT else []), *(["dictionary"] if links else [])]
    beside: dict[str, Any] = {"systems": ["pretrained", *controls]}
    beside |= {"dictionary": f"{cfg.out}/links"} if links else {}
    steps: dict[str, tuple[dict[str, Any], str, str]] = {
        "static": (model | beside, "scores/static", "static"),
        "less_text": (model | less_text, "less/text", "static_less"),
    }
    if kind in FIT:
        if suite in holdings.num_labels:
            _add_labeller(plan, cfg, suite, common, {"checkpoint": plan.models["static"]}, ["static", *links])
        fewer = {"train_rows": max(1, int(num_rows * LESS))}
        steps["less_labels"] = (model | fewer, "less/labels", "static")
        if suite in holdings.own_labels:
            own = {"source": cfg.lang, "protocol": "in_language"}
            steps["own_labels"] = (model | own, "scores/own_labels", "static")
    for name, (settings, folder, encoder) in steps.items():
        plan.steps[f"{suite}_{name}"] = _step(
            common | settings, f"{cfg.out}/{folder}/{suite}", [encoder, *links]
        )


def _add_labeller(
    plan: Plan,
    cfg: LanguageConfig,
    suite: str,
    common: Mapping[str, Any],
    model: Mapping[str, Any],
    after: list[str],
) -> None:
    """Add a model that labels texts, for `xling predict`; tables have the mean of all seeds, it has the first.

    Args:
        common: settings of the suite's evaluation.
        model: the encoder, as settings of ``xling finetune``.
        after: steps that come before.
    """
    plan.labellers[suite] = f"{cfg.out}/models/{suite}"
    settings: dict[str, Any] = {key: common[key] for key in ("data", "source", "train_rows")}
    settings |= {"suite": suite, "out": plan.labellers[suite], "fit": {**common["fit"], "seed": cfg.seeds[0]}}
    plan.steps[f"{suite}_model"] = {"stage": "finetune", "after": after, "config": {**settings, **model}}


def _most_rows(cfg: LanguageConfig) -> int:
    return max(LEAST_ROWS, int(ROWS_OF_AN_HOUR * cfg.hours))


def _add_export(plan: Plan, cfg: LanguageConfig, model: str, step: str) -> None:
    plan.steps[f"export_{model}"] = {
        "stage": "export hf",
        "after": [step],
        "config": {"checkpoint": plan.models[model], "out": f"{cfg.out}/export/{model}"},
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
        return {**settings, **SEARCH}
    chosen = dict(FIT[kind] if fit is None else fit)
    if has_links and (kind == "tag" or (kind == "intent_slots" and fit is None)):
        chosen["project"] = f"{cfg.out}/links"
    settings |= {"seeds": list(cfg.seeds), "train_rows": num_rows, "fit": chosen}
    return settings | ({"train_split": "dev"} if suite == "xsid" else {})


def _step(settings: dict[str, Any], out: str, after: list[str], optional: bool = True) -> dict[str, Any]:
    step: dict[str, Any] = {"stage": "eval", "after": after, "config": settings | {"out": out}}
    return step | ({"optional": True} if optional else {})


def _add_transformer(
    plan: Plan,
    cfg: LanguageConfig,
    holdings: Holdings,
    suites: list[str],
    kinds: Mapping[str, str],
    product_rate: float,
) -> None:
    """Add the steps of the recipe that train the model, and its scores."""
    steps = _training_steps(cfg, plan, holdings)
    trainings = {name: step for name, step in steps.items() if step["stage"] == "pretrain"}
    # An update costs 6 operations a weight and token.
    weights = max(num_parameters(step["config"]["model"]) for step in trainings.values())
    tokens = cfg.hours * 3600 * BODY_SHARE * product_rate * EFFICIENCY / (6 * weights)
    settings_of_train = [step["config"]["train"] for step in trainings.values()]
    total = sum(int(train["updates"]) * int(train["batch_tokens"]) for train in settings_of_train)
    for train in settings_of_train:
        train["updates"] = max(1, int(int(train["updates"]) * min(1.0, tokens / total)))
        train["warmup"] = min(int(train["warmup"]), train["updates"] // 10)
    plan.steps |= steps
    last = list(trainings)[-1]
    plan.models["transformer"] = trainings[last]["config"]["out"]
    plan.choose(
        "updates of the Transformer",
        " and ".join(f"{train['updates']:,}" for train in settings_of_train),
        f"those of recipes/{TRANSFORMER}, or what fits into {BODY_SHARE:.0%} of hours= at {EFFICIENCY:g} of this "
        f"core's {product_rate / 1e9:.0f} GFLOP/s",
    )
    (vocabulary,) = (step["config"] for step in steps.values() if step["stage"] == "vocab")
    plan.choose(
        "pieces of its vocabulary",
        f"at most {int(vocabulary['size']):,}",
        f"those of the body, and what the aligned text yields; languages are drawn by size^{vocabulary['alpha']}",
    )
    plan.choose("weights of the Transformer", "the last", "the learning rate falls to 0 by the last update")
    plan.models[JOINED] = plan.models["transformer"]
    plan.choose(
        "labels by the Transformer",
        "together with the static encoder",
        "texts with one class by text_features=neighbours, made for some hundreds of labels; of others `xling predict` "
        f"takes the static encoder alone where the Transformer reads fewer than {ROWS_OF_LABELLER:,} rows",
    )
    after = [last, "links"] if "links" in plan.steps else [last]
    _add_transformer_scores(plan, cfg, holdings, suites, kinds, weights / (product_rate * EFFICIENCY), after)
    _add_export(plan, cfg, "transformer", last)


def _add_transformer_scores(
    plan: Plan,
    cfg: LanguageConfig,
    holdings: Holdings,
    suites: list[str],
    kinds: Mapping[str, str],
    weight_s: float,
    after: list[str],
) -> None:
    """Add the scores of the Transformer, alone and with the static encoder, of its body, and models that label texts.

    Args:
        weight_s: time of one operation a weight.
        after: steps that come before.
    """
    tuned = [suite for suite in suites if kinds[suite] in FIT and kinds[suite] != "classify"]
    most = _most_rows_of_transformer(plan, cfg, len(tuned), weight_s)
    for suite in suites:
        num_rows = holdings.num_labels.get(suite, _most_rows(cfg))
        num_rows = min(num_rows, most if suite in tuned else _most_rows(cfg))
        fit = NEIGHBOURS_FIT if kinds[suite] == "classify" else TRANSFORMER_FIT
        common = _evaluation(cfg, suite, kinds[suite], num_rows, "links" in after, fit)
        settings = {key: value for key, value in common.items() if key != "match"}
        taught, body = f"transformer={plan.models['transformer']}", f"body={cfg.out}/transformer/body"
        is_tuned, is_joined = kinds[suite] in FIT, kinds[suite] in JOINED_KINDS
        systems = ["pretrained", JOINED] if is_joined else ["pretrained"]
        chosen: dict[str, dict[str, Any]] = {
            "transformer": {"systems": systems, "checkpoints": [taught]},
            "body": {"systems": ["pretrained"], "checkpoints": [body]},
        }
        if is_tuned:
            chosen["body"]["seeds"] = list(cfg.seeds[:1])
        else:  # the words of the static encoder are compared too
            chosen[JOINED] = {"systems": [JOINED], "checkpoints": [taught], "match": SEARCH["match"]}
        for name, each in chosen.items():
            plan.steps[f"{suite}_{name}"] = _step(settings | each, f"{cfg.out}/scores/{name}/{suite}", after)
        if suite in plan.labellers and (kinds[suite] == "classify" or num_rows >= ROWS_OF_LABELLER):
            model = {"checkpoint": plan.models["transformer"], "joined": is_joined}
            _add_labeller(plan, cfg, suite, common, model, after)


def _most_rows_of_transformer(plan: Plan, cfg: LanguageConfig, num_suites: int, weight_s: float) -> int:
    """Return how many rows each suite's fine-tunings may read; ``weight_s`` is the time of one operation a weight."""
    trainings = len(cfg.seeds) + 2  # of the body with one seed, and of the model that labels texts
    row_s = TRAINING * TOKENS_OF_A_ROW * int(TRANSFORMER_FIT["epochs"]) * trainings * weight_s
    fitting = int(cfg.hours * 3600 * SCORES_SHARE / (max(1, num_suites) * row_s))
    most = min(_most_rows(cfg), max(LEAST_ROWS, fitting))
    if num_suites:
        plan.choose(
            "rows of a suite for the Transformer",
            f"{most:,}",
            f"what {trainings} fine-tunings read in {SCORES_SHARE:.0%} of hours=, at least {LEAST_ROWS}",
        )
    return most


def _training_steps(cfg: LanguageConfig, plan: Plan, holdings: Holdings) -> dict[str, dict[str, Any]]:
    """Return the recipe's steps but for its scores; this plan's static encoder takes the place of the recipe's."""
    path = pipeline.RECIPES_FOLDER / TRANSFORMER
    raw = config.read_yaml(path)
    out, shape = f"{cfg.out}/transformer", shape_of(cfg.body)
    plan.choose(
        "shape of the Transformer",
        ", ".join(f"{key} {value}" for key, value in shape.items()) or f"that of recipes/{TRANSFORMER}",
        "that of the body" if shape else "the body is not here; STEP.model.dim= and the like change it",
    )
    by_lang = {code: sources_of_sentences(holdings, code) for code in (cfg.lang, *plan.relatives)}
    downloaded, waits_for = downloaded_pairs(plan)
    langs = [code for code, names in by_lang.items() if names or (downloaded and code == cfg.lang)]
    values = {"data": str(cfg.data), "body": cfg.body, "out": out, "langs": ",".join(langs)}
    left_out = ("eval", "report", "corpus nway", "corpus links", "pretrain static")
    kept = {name: step for name, step in raw["steps"].items() if step["stage"] not in left_out}
    steps = {}
    for name, step in pipeline.substitute(kept, {**raw["vars"], **values}, path).items():
        after = [f"transformer_{each}" for each in step.get("after", []) if each in kept]
        after += ["static"] if "static" in step.get("after", []) else []
        replaced = _replaced(step, f"{out}/static", plan.models["static"])
        if step["stage"] == "corpus pairs":
            sources = sorted({name for names in by_lang.values() for name in names})
            replaced["config"] |= {"source": cfg.source, "sources": sources, **downloaded}
            after += waits_for
        if step["stage"] == "pretrain":
            replaced["config"]["model"] |= shape
            replaced["config"]["objectives"]["teach"]["source"] = cfg.source
        steps[f"transformer_{name}"] = {**replaced, "after": after}
    return steps


def _replaced(value: Any, old: str, new: str) -> Any:
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
    also = (AUDIT, MINED, SWITCHED, *(f"{suite}_model" for suite in plan.labellers))
    plan.steps["report"] = {
        "stage": "language report",
        "after": [*(["details"] if scored else plan.steps), *(each for each in also if each in plan.steps)],
        "config": {"folder": cfg.out},
    }
