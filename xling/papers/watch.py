"""``xling watch``: how retrieval, loss and transfer grow over the updates of a training, language by language.

A training with ``train.snapshots=100,300,1000`` leaves models behind; each is scored as `xling eval` does it, and
losses are those of the log. Blevins et al. 2022 probe checkpoints of XLM-R and find that a language is learned early
and transfer between languages late, and that the last checkpoint is the best of few pairs. They leave open when a curve
has arrived; here that is the first snapshot with nine tenths of the way from the first to the best one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.settings.values import LangOrPair
from xling.eval.rows.protocols import files_at, training_suite
from xling.eval.rows.suite import data_folder, suites
from xling.eval.run.evaluation import run as evaluate
from xling.eval.run.settings import EvalConfig
from xling.eval.scores import score_file
from xling.eval.systems import FitConfig
from xling.pages import figure, page, tabular
from xling.pages.tabular import Table

STAGE, SNAPSHOTS = "watch", "snapshots"
ARRIVED = 0.9

Curves = dict[tuple[str, str], list[tuple[float, float]]]
"""(what is measured, language) -> (updates, value) in order."""


@dataclass(frozen=True)
class WatchConfig:
    """Settings of ``xling watch``.

    Attributes:
        checkpoints: folders of ``xling pretrain`` with snapshots, or models of one training with other updates.
        suites: what is scored; none for losses alone.
        out: directory to publish: ``watch.html``, ``watch.csv``; predictions are kept in ``OUT.eval``.
        data: folder of the suites' files; default: what XLING_DATA names.
        langs: languages to score; default: all available.
        train_rows: of fine-tuning; 0 for all.
        seeds: of fine-tuning.
        fit: settings of fine-tuning.
        centred: take off the mean vector of each side of a retrieval first.
    """

    checkpoints: tuple[Path, ...]
    suites: tuple[str, ...] = ()
    out: Path = Path("watch")
    data: Path | None = None
    langs: tuple[LangOrPair, ...] = ()
    train_rows: int = 0
    seeds: tuple[int, ...] = (1,)
    fit: FitConfig = field(default_factory=FitConfig)
    centred: bool = False


def run(cfg: WatchConfig) -> Answer:
    """Score every snapshot and publish curves and a table.

    Raises:
        UserError: no checkpoint, no pre-training there, or two models after equally many updates.
    """
    models = snapshots_of(cfg.checkpoints)
    inputs = [*cfg.checkpoints, *_rows_of(cfg)]
    if not manifest.up_to_date(cfg.out, STAGE, cfg, inputs, replaceable=True):
        curves = losses_of(cfg.checkpoints) | _scores(cfg, models)
        title = "What grows when"
        pictures = [each for what in dict.fromkeys(w for w, _ in curves) for each in _drawn(what, curves)]
        table = _table(curves)
        body = [
            f"<main><h1>{title}</h1>",
            figure.arrange_figures(pictures),
            tabular.html_table(table),
            "</main>",
        ]
        points = [(w, x, int(u), v) for (w, x), line in curves.items() for u, v in line]
        columns = (("measure", ""), ("language", ""), ("updates", "d"), ("value", ".3f"))
        with manifest.publish(cfg.out, STAGE, cfg, inputs) as output:
            (output.path / "watch.html").write_text(
                page.html_document(title, "\n".join(body)), encoding="utf-8"
            )
            (output.path / "watch.md").write_text(tabular.to_markdown(table), encoding="utf-8")
            every = Table("watch", title, columns, tuple(points))
            (output.path / "watch.csv").write_text(tabular.to_csv(every), encoding="utf-8")
            output.counts |= {"models": len(models), "curves": len(curves)}
    text = (cfg.out / "watch.md").read_text(encoding="utf-8")
    return Answer(
        f"{text.rstrip()}\n\nwritten: {cfg.out / 'watch.html'}", dict(manifest.read(cfg.out).counts)
    )


def _rows_of(cfg: WatchConfig) -> list[Path]:
    data = data_folder(cfg.data) if cfg.suites else Path()
    named = [suites()[name] for name in cfg.suites]
    every = {each.name: each for suite in named for each in (suite, training_suite(suite))}
    return [
        *(path for suite in every.values() for path in files_at(suite, suite.splits, data)),
        *cfg.fit.files(),
    ]


def snapshots_of(checkpoints: Sequence[Path]) -> dict[int, Path]:
    """Map the number of updates to the model that was published then, in order.

    Raises:
        UserError: see `run`.
    """
    if not checkpoints:
        raise UserError("no checkpoint is named", "a folder of `xling pretrain`", "xling watch runs/model")
    result: dict[int, Path] = {}
    for folder in checkpoints:
        output = manifest.read(folder)
        if output.stage != "pretrain" or "updates" not in output.counts:
            raise UserError(f"{folder} was made by {output.stage!r}", "a folder of `xling pretrain`")
        own = {int(path.name): path for path in (folder / SNAPSHOTS).glob("*")}
        for updates, path in (own | {int(output.counts["updates"]): folder}).items():
            if updates in result:
                raise UserError(f"{result[updates]} and {path} both have {updates} updates", "one training")
            result[updates] = path
    return dict(sorted(result.items()))


def losses_of(checkpoints: Sequence[Path]) -> Curves:
    """Validation losses by objective and language, of every log."""
    result: Curves = {}
    for folder in checkpoints:
        for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            for key, value in event.items() if event["split"] == "valid" else ():
                if key.startswith("loss/") and key.count("/") == 2:
                    _, name, lang = key.split("/")
                    result.setdefault((f"{name}: loss in nats", lang), []).append((event["update"], value))
    return {key: sorted(points) for key, points in result.items()}


def _scores(cfg: WatchConfig, models: Mapping[int, Path]) -> Curves:
    """Scores of `xling eval`, mean over seeds."""
    if not cfg.suites:
        return {}
    out = cfg.out.with_name(f"{cfg.out.name}.eval")
    named = tuple(f"u{updates}={path}" for updates, path in models.items())
    evaluate(
        EvalConfig(
            cfg.suites, out, cfg.data, ("pretrained",), checkpoints=named, langs=cfg.langs, seeds=cfg.seeds,
            train_rows=cfg.train_rows, fit=cfg.fit, centred=cfg.centred,
        )
    )  # fmt: skip
    values: dict[tuple[str, str], dict[int, list[float]]] = {}
    for score in score_file.read_scores(out / "tables" / "scores.json"):
        if score.system.startswith("u"):
            key = f"{score.suite}: {score.metric} in %", score.lang
            values.setdefault(key, {}).setdefault(int(score.system[1:]), []).append(score.value)
    return {
        key: [(float(u), sum(result) / len(result)) for u, result in sorted(line.items())]
        for key, line in values.items()
    }


def _drawn(what: str, curves: Curves) -> list[str]:
    lines = {lang: points for (name, lang), points in curves.items() if name == what}
    return figure.line_charts(lines, what.partition(":")[0], what.partition(": ")[2])


def arrived(points: Sequence[tuple[float, float]], falls: bool) -> tuple[int, int]:
    """Updates at nine tenths of the way from the first to the best value, and at the best."""
    values = [-value if falls else value for _, value in points]
    best = max(values)
    far = next(i for i, v in enumerate(values) if v >= values[0] + ARRIVED * (best - values[0]))
    return int(points[far][0]), int(points[values.index(best)][0])


def _table(curves: Curves) -> Table:
    rows = []
    for (what, lang), points in curves.items():
        far, best = arrived(points, "loss" in what)
        at_best = next(value for updates, value in points if updates == best)
        rows.append((what, lang, points[0][1], at_best, points[-1][1], far, best))
    columns = (
        ("measure", ""), ("language", ""), ("first", ".2f"), ("best", ".2f"), ("last", ".2f"),
        ("updates at 90 %", "d"), ("updates at the best", "d"),
    )  # fmt: skip
    note = "90 %: of the way from the first value to the best one."
    return Table("grown", "What grows when", columns, tuple(rows), (note,))
