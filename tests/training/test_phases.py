"""Phases: their lengths, what each trains on, and a run that is killed anywhere and ends at the same weights."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.conftest import (
    Killed,
    Pretrain,
    events,
    identical,
    killed_near,
    settings,
    stop_after,
    weights,
)  # fmt: skip
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.training import plan, train
from xling.training.plan import Batches
from xling.training.settings import PhaseConfig, PretrainConfig, TrainConfig

PHASES = (
    "phases.first.updates=9", "phases.first.langs=en", "phases.first.mask_prob=0.3",
    "phases.first.tokens_per_sample=16",
    "phases.more.updates=6", "phases.more.langs=en,th", "phases.more.alpha=0.9",
    "phases.last.updates=9", "phases.last.langs=all", "phases.last.part=decay", "phases.last.global_theta=160000",
    "phases.last.local_theta=170000",
    "train.schedule=wsd", "train.warmup=3", "train.lr=3e-3",
)  # fmt: skip
MODERN = (
    "model.positions=rope", "model.attention=local:8/global:2", "model.ffn=geglu", "model.norm=unshifted",
    "model.biases=false", "model.pre_norm=true", "model.first_norm=false", "model.head_biases=false",
    "model.global_theta=10000",
)  # fmt: skip


def planned(*words: str) -> tuple[TrainConfig, tuple[plan.PhasePlan, ...]]:
    cfg = config.load(PretrainConfig, overrides=["data=d", "out=o", *words])
    return plan.phases_of(cfg, cfg.train)


def test_lengths_languages_and_settings_of_each_phase(tmp_path: Path) -> None:
    listed = tmp_path / "langs.txt"
    listed.write_text("en sw\nth\n")
    whole, phases = planned(
        *PHASES, f"phases.more.langs={listed}", "phases.last.updates=0", "phases.last.tokens=12300"
    )
    assert [(phase.name, phase.end) for phase in phases] == [("first", 9), ("more", 15), ("last", 19)]
    assert whole.updates == 19 and whole.decay == pytest.approx(4 / 19)
    assert [phase.cfg.langs for phase in phases] == [("en",), ("en", "sw", "th"), ()]
    first = phases[0].cfg.objectives["mmlm"]
    assert first == {"mask_prob": "0.3", "tokens_per_sample": "16"}
    assert phases[1].cfg.objectives["mmlm"] == {"alpha": "0.9"} and phases[2].thetas == {
        "global_theta": 160000.0,
        "local_theta": 170000.0,
    }
    assert all(phase.cfg.train == whole and not phase.cfg.phases for phase in phases)


@pytest.mark.parametrize(
    ("words", "said"),
    [(("phases.a.langs=en",), "one of the two"), (("phases.a.updates=3", "phases.a.tokens=9"), "one of the two"),
     (("phases.a.updates=3", "phases.a.part=decay"), "train.schedule=wsd"),
     (("train.schedule=wsd", "phases.a.updates=3", "phases.a.part=decay", "phases.b.updates=3"), "no stable phase"),
     (("phases.a.updates=3", "phases.a.langs=./none.txt"), "no such file"),
     (("phases.a.updates=3", "phases.a.langs=en", "model.lang_embeddings=true"), "same languages"),
     (("phases.a.updates=3", "phases.b.updates=3", "phases.b.objectives.xlco.weight=1"), "in the first phase"),
     (("phases.a.updates=3", "phases.a.objectives.nothing.weight=1"), "nothing")],
)  # fmt: skip
def test_mistakes_are_named(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        planned(*words)


def test_a_batch_grows_with_the_tokens_that_were_read() -> None:
    batches = Batches(4, 100, 1000)
    sizes = [batches.at(update) for update in range(8)]
    # 1 + 3 x the share of 1,000 tokens: 0, 100, 300, 500 and 800 were read before.
    assert sizes == [1, 2, 2, 3, 4, 4, 4, 4] and batches.total(8) == sum(sizes)
    assert batches.updates(800) == 4 and batches.updates(1600) == 6 and batches.updates(400, start=5) == 1
    assert Batches(4, 100).at(0) == 4 and Batches(4, 100, 1000, 3).at(0) == 3
    made: list[list[int]] = []
    for group in batches.grouped(range(10), lambda: len(made)):
        made.append(group)
    assert made == [[0], [1, 2], [3, 4], [5, 6, 7], [8, 9]]


def test_phases_read_what_they_name_and_decay_at_the_end(pretrain: Pretrain) -> None:
    made = pretrain("out", *PHASES, *MODERN, "train.log_every=1")
    counts = manifest.read(made).counts
    seen = counts["seen"]
    assert list(seen["phases"]) == ["first", "more", "last"] and counts["langs"] == ["en", "th", "ar"]
    languages = [set(phase["tokens"]) for phase in seen["phases"].values()]
    assert languages == [{"en"}, {"en", "th"}, {"ar", "en", "th"}]
    for lang, one in seen["tokens"].items():
        assert one["read"] == sum(p["tokens"].get(lang, {"read": 0})["read"] for p in seen["phases"].values())
        assert one["epochs"] == pytest.approx(one["read"] / one["there"], abs=1e-3)
    rates = {event["update"]: event["lr"] for event in events(made) if event["split"] == "train"}
    assert rates[1] < rates[3] == rates[15] == 3e-3 and rates[16] < 3e-3 and rates[24] < rates[18]
    shape = torch.load(made / "model.pt", weights_only=True)["shape"]
    assert (shape["global_theta"], shape["local_theta"]) == (160000.0, 170000.0)
    assert counts["updates"] == 24


@pytest.mark.parametrize(
    "words",
    [("train.optimizer=muon",), ("train.optimizer=stable_adamw", "train.accumulate=3", "train.batch_warmup=400"),
     ("model.precision=bf16", "train.optimizer=muon")],
)  # fmt: skip
def test_a_run_in_phases_goes_on_from_anywhere_to_the_same_weights(
    pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    straight = pretrain("out", *PHASES, *MODERN, *words)
    wanted, counted = weights(straight), manifest.read(straight).counts["seen"]
    shutil.rmtree(straight)
    for update in (3, 9, 11, 15, 17, 23):
        with monkeypatch.context() as patch:
            stop_after(update, patch)
            with pytest.raises(Killed):
                pretrain("out", *PHASES, *MODERN, *words)
    resumed = pretrain("out", *PHASES, *MODERN, *words)
    assert identical(wanted, weights(resumed))
    assert manifest.read(resumed).counts["seen"] == counted


@pytest.mark.parametrize("schedule", ["cosine", "wsd", "inverse_sqrt"])
def test_every_schedule_goes_on_exactly(
    pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch, schedule: str
) -> None:
    words = (f"train.schedule={schedule}", "train.warmup=4", "train.updates=12", "train.log_every=1")
    straight = pretrain("out", *words)
    wanted = weights(straight)
    rates = [event["lr"] for event in events(straight) if event["split"] == "train"]
    shutil.rmtree(straight)
    for update in (3, 7, 11):
        with monkeypatch.context() as patch:
            stop_after(update, patch)
            with pytest.raises(Killed):
                pretrain("out", *words)
    resumed = pretrain("out", *words)
    assert identical(wanted, weights(resumed))
    assert rates == [event["lr"] for event in events(resumed) if event["split"] == "train"]
    assert rates[3] == 3e-3 and rates[-1] < 3e-3 and len({*rates}) > 3


def test_killed_by_the_system_in_any_phase(
    shards: Path, tiny: tuple[str, ...], tmp_path: Path, pretrain: Pretrain
) -> None:
    words = (*PHASES, *MODERN, "train.save_every=2", "train.optimizer=muon")
    wanted = weights(pretrain("straight", *words))
    for near in (5, 10, 17):
        killed_near(near, settings(shards, tiny, tmp_path / "killed", *words))
    assert identical(wanted, weights(pretrain("killed", *words)))


def test_a_finished_run_is_up_to_date(shards: Path, tiny: tuple[str, ...], tmp_path: Path) -> None:
    """The manifest holds the settings as they were given, not those that the phases work out."""
    cfg = settings(shards, tiny, tmp_path / "out", "phases.only.updates=2", "phases.only.langs=en")
    made = train.run(cfg)
    assert train.run(cfg) == made


def test_the_plan_shows_epochs_by_phase_and_language(
    shards: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    cfg = replace(settings(shards, tiny, tmp_path / "out", *PHASES), dry_run=True)
    answer: Any = train.run(cfg)
    assert "phase      first: 9 updates" in answer and "phase      in all" in answer
    assert set(answer.data["seen"]["tokens"]) == {"ar", "en", "th"} and answer.data["updates"] == 24
    assert not (tmp_path / "out").exists()
    json.dumps(answer.data)


def test_settings_out_of_range_are_named() -> None:
    with pytest.raises(UserError, match=r"phases\.updates=-1"):
        PhaseConfig(updates=-1)
    with pytest.raises(UserError, match=r"train\.final_lr=0\.1 with train\.schedule=linear"):
        TrainConfig(final_lr=0.1)


def test_the_operations_of_an_update_are_those_that_torch_counts() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    from xling.models.network.encoder import EncoderConfig, EncoderModel
    from xling.training import speed

    model = EncoderModel(
        EncoderConfig(layers=2, dim=32, heads=2, ffn_dim=64, dropout=0.0, max_positions=128), 200
    )
    model = model.bfloat16()  # in float32 attention is one kernel, which torch does not count on a CPU
    tokens, target = torch.arange(4, 132), torch.arange(4, 24)
    sample = {"net_input": {"src_tokens": tokens, "positions": torch.arange(64).repeat(2), "runs": [(2, 64)]}}
    with FlopCounterMode(display=False) as counter:
        total, _ = model.lm_head.loss(model(**sample["net_input"])[:20], target)
        total.backward()
    predicted = sample | {"target": target, "target_langs": target}
    assert speed.operations(model, [predicted]) == pytest.approx(counter.get_total_flops(), rel=0.1)
    # `teach` numbers words in its targets, and its teacher's weights are frozen.
    taught = {"student": sample | {"target": target}, "teacher": predicted, "target_langs": target}
    assert speed.operations(model, [taught]) == speed.operations(model, [sample])
    local = EncoderModel(
        EncoderConfig(layers=2, dim=32, heads=2, attention="local:8/global:2", ffn_dim=64), 200
    )
    fewer = speed.operations(model, [sample]) - 3 * 4 * 32 * 2 * 64 * (64 - 9)
    assert speed.operations(local, [sample]) == pytest.approx(fewer)


def test_the_log_says_rate_norm_and_utilisation(pretrain: Pretrain) -> None:
    for event in events(pretrain("out", "train.updates=4", "train.log_every=2", "train.warmup=2")):
        if event["split"] == "train":
            assert event["lr"] > 0 and event["gnorm"] > 0 and 0 < event["mfu"] < 1


def test_the_precision_is_said_and_another_one_warns(
    pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from xling.models.network import encoder
    from xling.training.update import Log

    write, shown = Log.write_train, list[str]()
    monkeypatch.setattr(Log, "write_train", lambda *given: shown.append(write(*given)) or shown[-1])

    fast = {"fast": True}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: fast["fast"])
    assert encoder.choose_dtype("auto") == (torch.bfloat16, "the processor has AMX or AVX512-BF16")
    words = ("train.updates=8", "train.log_every=2", "model.precision=auto")
    with monkeypatch.context() as patch:
        stop_after(5, patch)
        with pytest.raises(Killed):
            pretrain("out", *words)
    assert "was written in" not in caplog.text
    fast["fast"] = False
    made = pretrain("out", *words)
    assert "was written in bfloat16, this machine continues in float32" in caplog.text
    told = [event["precision"] for event in events(made) if "precision" in event]
    assert told == [
        "bfloat16: the processor has AMX or AVX512-BF16",
        "float32: the processor has no AMX or AVX512-BF16",
    ]
    assert all("lr " in line and "gnorm " in line and "MFU " in line for line in shown)
    ends = [line.split(", ")[-1].partition(" (")[::2] for line in shown]
    assert ends[:2] == [("bfloat16", "the processor has AMX or AVX512-BF16)"), ("bfloat16", "")]
    assert ("float32", "the processor has no AMX or AVX512-BF16)") in ends


@pytest.mark.parametrize(
    ("name", "dtype", "rate"),
    [("NVIDIA H100 PCIe", "bfloat16", 756e12), ("NVIDIA H100 80GB HBM3", "float16", 989e12),
     ("NVIDIA H100 PCIe", "float32", 0.0), ("Voodoo 2", "bfloat16", 0.0)],
)  # fmt: skip
def test_the_rate_of_a_device_is_that_of_its_data_sheet_or_unknown(
    name: str, dtype: str, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xling.training import speed

    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)
    speed.peak.cache_clear()
    assert speed.peak("cuda", getattr(torch, dtype)) == (rate, f"data sheet of {name}")
    speed.peak.cache_clear()
