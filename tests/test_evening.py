"""The recipe `evening`: what its steps read, start from and teach, and the GPU stage of the same model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import transfer
from xling import cli
from xling.core.commands import pipeline
from xling.core.settings import config
from xling.corpora.nway.build import NwayConfig
from xling.corpora.nway.pair_texts import PairsConfig
from xling.eval.run.settings import EvalConfig
from xling.training.settings import PretrainConfig


@pytest.mark.parametrize(
    ("words", "sides"), [((), "target"), (("scale=tiny",), "target"), (("scale=gpu",), "both")]
)
def test_every_step_goes_on_from_the_one_before(words: tuple[str, ...], sides: str) -> None:
    plan = pipeline.read(cli.recipe_path("evening"), ["data=FOLDER", "body=hf:BODY", *words])
    steps = {name: plan.settings(name) for name in plan.steps}
    model, body = steps["model"], str(steps["body"].out)
    assert str(steps["body"].source) == "hf:BODY"
    assert (model.init, model.embeddings, model.freeze) == (body, "wechsel", "none")
    assert steps["vocab"].base == model.freeze_pieces == body
    assert model.init_pieces == str(steps["static"].out) and model.data == steps["shards"].out
    taught = model.objectives["teach"]
    assert (taught["teacher"], taught["links"], taught["sides"]) == (body, model.init_pieces, sides)
    assert steps["vocab"].rows == steps["shards"].rows == str(steps["pairs"].out)
    assert steps["tags"].fit.project == steps["links"].out and not {"ntrex", "tatoeba"} & {
        *steps["links"].sources
    }
    for suites in ("texts", "tags", "pairs_of_texts"):
        assert [each.partition("=")[0] for each in steps[suites].checkpoints] == ["taught", "body", "static"]


def test_no_source_holds_rows_that_are_scored() -> None:
    for settings in (PairsConfig, NwayConfig):
        assert not {"ntrex", "tatoeba"} & set(settings.__dataclass_fields__["sources"].default)


@pytest.mark.parametrize("start", ["body", "nothing"])
def test_the_gpu_stage_gives_valid_settings_and_trains_as_long_as_it_was_told(
    start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, Any]] = []

    class Done:
        def wait(self) -> int:
            return 0

    def xling(command: str, *words: str) -> Done:
        cfg = config.load(PretrainConfig if command == "pretrain" else EvalConfig, overrides=words)
        calls.append((command, cfg))
        if command == "pretrain":
            lines = [{"split": "train", "tokens_per_s": rate} for rate in (1, 65_536, 131_072)]
            Path(cfg.out).mkdir(parents=True)
            (Path(cfg.out) / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return Done()

    monkeypatch.setattr(transfer, "_xling", xling)
    monkeypatch.setenv("OUT", str(tmp_path))
    transfer.run({"folder": str(tmp_path), "start": start, "seconds": "200", "seeds": "1,2"})
    (_, probe), (_, model), *evals = calls
    assert (probe.train.updates, model.train.updates) == (transfer.PROBE_UPDATES, 300)
    assert model.init == str(probe.out) and probe.init == (f"{tmp_path}/body" if start == "body" else "")
    assert len(evals) == (16 if start == "body" else 11)
