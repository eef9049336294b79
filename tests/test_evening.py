"""The recipe `evening`: what its steps read, start from and teach, at both scales."""

from __future__ import annotations

import pytest

from xling import cli
from xling.core.commands import pipeline
from xling.corpora.nway.build import NwayConfig
from xling.corpora.nway.pair_texts import PairsConfig


@pytest.mark.parametrize("words", [(), ("scale=tiny",)])
def test_every_step_goes_on_from_the_one_before(words: tuple[str, ...]) -> None:
    plan = pipeline.read(cli.recipe_path("evening"), ["data=FOLDER", "body=hf:BODY", *words])
    steps = {name: plan.settings(name) for name in plan.steps}
    model, body = steps["model"], str(steps["body"].out)
    assert str(steps["body"].source) == "hf:BODY"
    assert (model.init, model.embeddings, model.freeze) == (body, "wechsel", "none")
    assert steps["vocab"].base == model.freeze_pieces == body
    assert model.init_pieces == str(steps["static"].out) and model.data == steps["shards"].out
    taught = model.objectives["teach"]
    assert (taught["teacher"], taught["links"], taught["sides"]) == (body, model.init_pieces, "target")
    assert steps["vocab"].rows == steps["shards"].rows == str(steps["pairs"].out)
    for suites in ("texts", "tags", "pairs_of_texts"):
        assert [each.partition("=")[0] for each in steps[suites].checkpoints] == ["taught", "body", "static"]


def test_no_source_holds_rows_that_are_scored() -> None:
    for config in (PairsConfig, NwayConfig):
        assert not {"ntrex", "tatoeba"} & set(config.__dataclass_fields__["sources"].default)
