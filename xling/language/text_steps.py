"""The `Plan` of `xling language`, and its steps that make text: corpora, downloaded, mined and code-switched pairs."""

from dataclasses import dataclass, field
from typing import Any

from xling.core import languages
from xling.core.settings import values
from xling.language.holdings import DICTIONARIES, Holdings, shared_words
from xling.language.settings import OPUS_PAIRS, LanguageConfig

NUM_RELATIVES = 3
LEAST_SHARED = 0.15
"""Share of running words that a language of another family must have in common to count as a relative."""
LEAST_TEXT_BYTES = 2_000
"""Of the running text of a language; a build that keeps no document is an error, and would stop the command."""
SWITCHED_PAIRS = 5000
"""Of each source: aligning the words of so many takes about a minute."""
EXPORT, AUDIT = "txt", "audit"
MINED, SWITCHED, PARALLEL = "mined", "switched", "parallel"
"""Steps; the first two are also the folders below ``corpora`` that they write."""
SHARE_OF_OTHERS = 0.1
"""Of ``size=``, for each relative and the source language."""


@dataclass
class Plan:
    """Steps of the pipeline, and why they are as they are.

    Attributes:
        steps: name -> step, as in a pipeline file.
        choices: what was chosen, its value, and its rule.
        relatives: languages that are read beside the language itself.
        models: name of a model in the tables -> its folder.
        labellers: suite -> folder of a model that labels texts.
    """

    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    choices: list[tuple[str, str, str]] = field(default_factory=list)
    relatives: list[str] = field(default_factory=list)
    models: dict[str, str] = field(default_factory=dict)
    labellers: dict[str, str] = field(default_factory=dict)

    def choose(self, what: str, value: object, rule: str) -> None:
        """Note a choice."""
        self.choices.append((what, str(value), rule))


def choose_relatives(plan: Plan, cfg: LanguageConfig, holdings: Holdings) -> None:
    """Choose the languages that are read beside the language itself."""
    plan.relatives = list(cfg.relatives) or find_relatives(cfg, holdings)
    rule = (
        f"aligned text is there; the same family and script first, then a share of {LEAST_SHARED:.0%} of the running "
        f"words in common; at most {NUM_RELATIVES}"
    )
    plan.choose("relatives", ", ".join(plan.relatives) or "none", "given" if cfg.relatives else rule)


def find_relatives(cfg: LanguageConfig, holdings: Holdings) -> list[str]:
    """Return the nearest languages with aligned text, the nearest first."""
    ours = languages.get(cfg.lang)
    ranked = []
    for code in holdings.pairs:
        if code in (cfg.lang, cfg.source) or code not in languages.LANGUAGES:
            continue
        other, shared = languages.LANGUAGES[code], shared_words(holdings, cfg.lang, code)
        is_family = other.family == ours.family and other.script == ours.script
        if holdings.num_pairs(code) >= cfg.least and (is_family or shared >= LEAST_SHARED):
            ranked.append((not is_family, -shared, code))
    return [code for *_, code in sorted(ranked)[:NUM_RELATIVES]]


def add_corpora(plan: Plan, cfg: LanguageConfig, holdings: Holdings) -> None:
    """Add the corpora of running text, and the pairs that are downloaded, without the rows of suites."""
    leaks = {}
    if holdings.suites:
        plan.steps["leaks"] = {
            "stage": "eval leaks",
            "config": {"data": str(cfg.data), "out": f"{cfg.out}/leaks", "suites": holdings.suites},
        }
        leaks = {"after": ["leaks"]}
    sizes = _sizes(cfg, plan.relatives)
    for code in (cfg.lang, *plan.relatives, cfg.source):
        own, num_bytes = holdings.texts.get(code, ()), holdings.text_bytes.get(code, 0)
        if own and num_bytes < LEAST_TEXT_BYTES:
            reason = (
                f"its files have {num_bytes:,} bytes; of fewer than {LEAST_TEXT_BYTES:,} nothing may be left"
            )
            plan.choose(f"text of {code}", "left out", reason)
            own = ()
        remote = [uri for uri in holdings.remote if code == cfg.lang or (code in sizes and uri != "wiki:")]
        uris = [*own, *remote]
        if uris:
            settings: dict[str, Any] = {"lang": code, "source": uris, "out": f"{cfg.out}/corpora/{code}"}
            if code in (cfg.lang, cfg.source):
                settings["export"] = EXPORT
            if leaks:
                settings["settings"] = {"contamination": {"leaks": f"{cfg.out}/leaks"}}
            if remote:
                settings |= {"size": sizes[code]} if remote != ["wiki:"] else {}
                settings["cache"] = cfg.cache
                settings["base_urls"] = _mirrors(cfg, "wiki" if code == cfg.lang else "cc", "cc")
            plan.steps[f"text_{code}"] = {"stage": "corpus mono", **leaks, "config": settings}
            if code == cfg.lang:
                page = {"stage": "corpus audit", "config": {"corpus": settings["out"]}, "optional": True}
                plan.steps[AUDIT] = {**page, "after": [f"text_{code}"]}
    if holdings.downloads:
        pair = f"{cfg.lang}-{cfg.source}"
        settings = {"pair": pair, "source": ["opus:"], "size": OPUS_PAIRS, "out": f"{cfg.out}/corpora/{pair}"}
        settings |= {"dev_pairs": 0, "test_pairs": 0, "cache": cfg.cache}
        settings["base_urls"] = _mirrors(cfg, "opus", "opus_store")
        if leaks:
            settings["settings"] = {"overlap": {"leaks": f"{cfg.out}/leaks"}}
        plan.steps[PARALLEL] = {"stage": "corpus parallel", **leaks, "config": settings}
        rule = f"corpora of OPUS, the smallest first, up to {OPUS_PAIRS:,} pairs"
        plan.choose("downloaded pairs", f"{holdings.downloads:,}", rule)
    if not any(name.startswith("text_") for name in plan.steps):
        plan.choose("corpora", "none", "no running text was given, and size= was not given")


def _sizes(cfg: LanguageConfig, relatives: list[str]) -> dict[str, str]:
    """Return what may be downloaded of the crawl for each language; nothing without ``size``."""
    total = values.num_bytes(cfg.size) if cfg.size else 0
    if not total:
        return {}
    others = [*relatives, cfg.source]
    shares = {cfg.lang: 1 - SHARE_OF_OTHERS * len(others)} | dict.fromkeys(others, SHARE_OF_OTHERS)
    return {code: f"{int(total * share)}B" for code, share in shares.items()}


def _mirrors(cfg: LanguageConfig, *names: str) -> dict[str, str]:
    return {name: url for name, url in cfg.base_urls.items() if name in names}


def downloaded_pairs(plan: Plan) -> tuple[dict[str, Any], list[str]]:
    """Return the setting that reads the downloaded pairs, and the step that it waits for; empty without any."""
    if PARALLEL not in plan.steps:
        return {}, []
    return {"corpora": [plan.steps[PARALLEL]["config"]["out"]]}, [PARALLEL]


def add_mining(plan: Plan, cfg: LanguageConfig) -> None:
    """Add the search for translations in the running text of both sides, if both are there."""
    sides = [f"text_{code}" for code in (cfg.lang, cfg.source)]
    if all(side in plan.steps for side in sides):
        src, tgt = (f"{cfg.out}/corpora/{code}/{code}.{EXPORT}" for code in (cfg.lang, cfg.source))
        settings = {
            "pair": f"{cfg.lang}-{cfg.source}",
            "src": src,
            "tgt": tgt,
            "out": f"{cfg.out}/corpora/{MINED}",
        }
        settings["checkpoint"] = plan.models["static"]
        plan.steps[MINED] = {"stage": "mine", "after": [*sides, "static"], "config": settings}


def add_switched(plan: Plan, cfg: LanguageConfig, holdings: Holdings) -> None:
    """Add text in which words of both languages alternate, made from their word alignment."""
    sources, (downloaded, after) = sources_of_sentences(holdings, cfg.lang), downloaded_pairs(plan)
    if not (sources or downloaded):
        return
    pair, folder = f"{cfg.source}-{cfg.lang}", f"{cfg.out}/aligned"
    texts: dict[str, Any] = {"data": str(cfg.data), "out": f"{folder}/pairs", "source": cfg.source}
    texts |= {"limit": SWITCHED_PAIRS, "langs": [cfg.lang], "sources": sources, **downloaded}
    src, tgt = (f"{folder}/pairs/{pair}/train.{code}" for code in (cfg.source, cfg.lang))
    switch = {"pair": pair, "source": [f"{folder}/words"], "out": f"{cfg.out}/corpora/{SWITCHED}"}
    plan.steps |= {
        "pairs": {"stage": "corpus pairs", "after": after, "config": texts},
        "words": {
            "stage": "align",
            "after": ["pairs"],
            "config": {"pair": pair, "src": src, "tgt": tgt, "out": f"{folder}/words"},
        },
        SWITCHED: {"stage": "corpus codeswitch", "after": ["words"], "config": switch},
    }


def sources_of_sentences(holdings: Holdings, code: str) -> list[str]:
    """Return the sources of the data folder with sentences of a language and the source language."""
    return [name for name, rows in holdings.pairs.get(code, {}).items() if rows and name not in DICTIONARIES]
