"""Several processes over gloo: the gradients of everything are averaged, and their number may change."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.ranks import MODES, count
from benchmarks.traffic import Traffic
from tests.objectives.processes import in_processes, losses, published, trained
from xling import compat
from xling.core import signals
from xling.core.errors import UserError
from xling.models.distributed import processes
from xling.models.optim.adamw import NotFiniteError
from xling.training import train
from xling.training.assemble import build_trainer
from xling.training.update import Updates

MIX = "mmlm+clwr+xlco"
pytestmark = pytest.mark.usefixtures("warm")


def weights(out: Path) -> dict[str, torch.Tensor]:
    """All that a checkpoint holds of the model, what the objectives keep included."""
    (path,) = sorted(out.with_name(f"{out.name}.states").glob("*.pt"))[-1:]
    made: dict[str, torch.Tensor] = torch.load(path, weights_only=True)
    return made


def keep_state(out: Path) -> Callable[[int], None]:
    """Make a training in this process keep its last state beside ``out``."""
    folder = out.with_name(f"{out.name}.states")
    folder.mkdir(exist_ok=True)
    original = train.model_weights.save_model

    def kept(path: Path, model: Any, *rest: Any) -> None:
        torch.save(dict(model.state_dict()), folder / "last.pt")
        original(path, model, *rest)

    def patch(rank: int) -> None:
        train.model_weights.save_model = kept  # type: ignore[assignment]

    return patch


@pytest.mark.parametrize(
    ("names", "words"),
    [(MIX, ("mix=alternate",)), (MIX, ("mix=sum", "model.precision=bf16"))],
)
def test_two_processes_make_the_weights_of_one_with_the_same_batches(
    recipe: Any, bitext: Path, tmp_path: Path, names: str, words: tuple[str, ...]
) -> None:
    same = ("model.dropout=0", "train.updates=4", "train.valid_every=4", "train.lr=1e-3", *words)
    for world in (1, 2):
        out = tmp_path / f"of-{world}"
        cfg = recipe(bitext, names, out, *same, f"train.accumulate={2 // world}")
        patch = keep_state(out)

        def work(rank: int, cfg: Any = cfg, patch: Callable[[int], None] = patch) -> None:
            patch(rank)
            train.run(cfg)

        in_processes(world, work)
    one, two = weights(tmp_path / "of-1"), weights(tmp_path / "of-2")
    assert one.keys() == two.keys()
    near = {"rtol": 0.05, "atol": 2e-3} if "model.precision=bf16" in words else {"rtol": 1e-4, "atol": 2e-6}
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, **near, msg=lambda text, name=name: f"{name}: {text}")


def test_many_batches_of_an_update_are_logged_within_fairseqs_limit(
    recipe: Any, bitext: Path, tmp_path: Path
) -> None:
    # 150 bytes and more a batch once were pickled for every batch: far more than fairseq's 16,384.
    small = ("objectives.mmlm.tokens_per_sample=16", "train.batch_tokens=64", "train.log_every=1")
    once = ("train.accumulate=128", "train.updates=1", "train.valid_every=1", "model.dropout=0")
    logs = []
    for world in (2, 1):
        out = tmp_path / f"of-{world}"
        cfg = recipe(bitext, "mmlm", out, *small, *once, f"train.accumulate={256 // world}")

        def work(rank: int, cfg: Any = cfg) -> None:
            train.run(cfg)

        in_processes(world, work)
        logs.append([json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()])
    for two, one in zip(*logs, strict=True):
        losses = [{k: v for k, v in event.items() if k.startswith("loss")} for event in (two, one)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)
        assert losses[0].keys() >= {"loss", "loss/mmlm", "loss/mmlm/en"}


def test_fairseqs_limit_holds_without_a_gpu() -> None:
    def work(rank: int) -> None:
        from fairseq.distributed import utils

        compat.install()
        with processes.process_group():
            assert utils.all_gather_list("x" * 16_000) == ["x" * 16_000] * 2
            with pytest.raises(ValueError, match="exceeds max_size"):
                utils.all_gather_list("x" * 16_384)

    in_processes(2, work)


def test_another_number_of_processes_goes_on_with_the_next_batch(
    recipe: Any, bitext: Path, tmp_path: Path
) -> None:
    """The batches of an update stay the same, and so do the weights but for the order of sums."""
    total = 10

    def record(cfg: Any, stop: int) -> Callable[[int], None]:
        def work(rank: int) -> None:
            make = Updates.make

            def noting(self: Updates, samples: list[Any]) -> bool:
                update = self._trainer.get_num_updates()
                with (tmp_path / f"{cfg.out.rpartition('/')[2]}.seen").open("a") as seen:
                    for number, sample in enumerate(samples):
                        ids = sorted(sample["id"].tolist()) if sample else []
                        seen.write(json.dumps([update, number, rank, ids]) + "\n")
                if stop and update == stop:
                    signals.request_stop("test")
                return make(self, samples)

            Updates.make = noting  # type: ignore[method-assign]
            try:
                train.run(cfg)
            except signals.Stopped:
                assert stop

        return work

    def cfg_of(name: str, accumulate: int) -> Any:
        words = (f"train.updates={total}", "train.valid_every=1000", "train.save_every=1000")
        words += (f"train.accumulate={accumulate}", "model.dropout=0.0")
        return recipe(bitext, "mmlm+tlm", tmp_path / name, *words)

    in_processes(1, record(cfg_of("straight", 4), 0))
    for world, stop in ((2, 2), (4, 5), (1, 0)):
        in_processes(world, record(cfg_of("changed", 2), stop))  # the same settings in other processes

    def batches(name: str) -> list[list[int]]:
        lines = sorted(json.loads(line) for line in (tmp_path / f"{name}.seen").read_text().splitlines())
        return [ids for *_, ids in lines if ids]

    straight, changed = batches("straight"), batches("changed")
    assert len(straight) > 3 * total and changed == straight
    made = [torch.load(tmp_path / name / "model.pt")["weights"] for name in ("straight", "changed")]
    assert all(torch.allclose(made[0][name], made[1][name], rtol=0, atol=2e-5) for name in made[0])


@pytest.mark.parametrize(
    ("names", "words", "goes_on"),
    [
        ("mmlm", ("model.checkpoint_activations=true",), False),  # test_divided.py goes on with it
        ("translation", ("model.precision=bf16", "train.accumulate=2", "freeze=encoder"), False),
        ("mmlm+clwr+hictl+distill", ("mix=sum", "train.accumulate=2"), False),
        ("mmlm+xlco", ("mix=sum", "model.precision=bf16"), True),
    ],
)
def test_sharded_training_learns_the_same_and_goes_on_exactly(
    recipe: Any, bitext: Path, tmp_path: Path, names: str, words: tuple[str, ...], goes_on: bool
) -> None:
    same = ("train.updates=4", "train.valid_every=4", "train.save_every=2", "train.lr=1e-3", *words)
    whole = recipe(bitext, names, tmp_path / "whole", *same)
    sharded = recipe(bitext, names, tmp_path / "sharded", *same, "train.sharding=full")
    trained(whole, 2)
    trained(sharded, 2)
    wanted, found = losses(tmp_path / "whole"), losses(tmp_path / "sharded")
    assert len(found) == 4 and found == pytest.approx(wanted, abs=2e-3 if "bf16" in str(words) else 2e-4)
    norms = [
        [float(n) for n in (tmp_path / f"{name}.norms-0").read_text().split()]
        for name in ("whole", "sharded")
    ]
    # What is clipped by shows it, too, where gradients were summed in bfloat16.
    assert norms[1] == pytest.approx(norms[0], rel=0.05 if "bf16" in str(words) else 2e-6)
    published = torch.load(tmp_path / "sharded" / "model.pt", weights_only=True)["weights"]
    one_process = torch.load(tmp_path / "whole" / "model.pt", weights_only=True)["weights"]
    assert published.keys() == one_process.keys()
    for name, tensor in one_process.items():
        torch.testing.assert_close(published[name], tensor, rtol=0.05, atol=2e-3)
    if not goes_on:
        return
    # Again, stopped on the way.
    shutil.rmtree(tmp_path / "sharded")
    trained(sharded, 2, stop=2)
    assert not (tmp_path / "sharded").exists()
    trained(sharded, 2)
    again = torch.load(tmp_path / "sharded" / "model.pt", weights_only=True)["weights"]
    assert all(torch.equal(again[name], tensor) for name, tensor in published.items())
    assert losses(tmp_path / "sharded") == found


def test_translations_that_processes_keep_survive_a_stop(recipe: Any, bitext: Path, tmp_path: Path) -> None:
    same = ("train.updates=3", "train.valid_every=3", "train.lr=1e-2", "objectives.umt.pool=4")
    same += ("objectives.umt.tokens_per_sample=32",)
    straight, stopped = (recipe(bitext, "umt", tmp_path / name, *same) for name in ("straight", "stopped"))
    trained(straight, 2)
    trained(stopped, 2, stop=2)
    trained(stopped, 2)
    wanted, found = (
        torch.load(tmp_path / name / "model.pt", weights_only=True)["weights"]
        for name in ("straight", "stopped")
    )
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())


def test_the_first_process_alone_translates_the_tests(recipe: Any, bitext: Path, tmp_path: Path) -> None:
    from xling.transfer.translation import supervised

    for side, text in (("en", "a cat"), ("ar", "b")):
        (tmp_path / f"t.{side}").write_text(f"{text}\n", encoding="utf-8")
    like = recipe(bitext, "translation", tmp_path / "none", "train.updates=2", "train.valid_every=2")
    cfg = supervised.MtConfig(
        str(bitext),
        str(tmp_path / "mt"),
        tokens_per_sample=64,
        test={"en-ar": (f"{tmp_path}/t.en", f"{tmp_path}/t.ar")},
        model=like.model,
        train=like.train,
    )
    in_processes(2, lambda rank: supervised.run(cfg) and None)
    assert (tmp_path / "mt" / "scores.json").is_file()
    assert not (tmp_path / "mt.train").exists()


@pytest.mark.parametrize(
    ("names", "words", "message"),
    [
        ("umt", (), "train.sharding=full with objectives.umt; valid: .*mmlm.*xlco"),
        (
            "mmlm+tlm",
            (),
            "train.sharding=full with mix=alternate; valid: train.sharding=full with one objective, or with mix=sum",
        ),
    ],
)
def test_what_cannot_be_sharded_is_refused(
    recipe: Any, bitext: Path, tmp_path: Path, names: str, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        train.run(recipe(bitext, names, tmp_path / "out", "train.sharding=full", *words))


@pytest.mark.parametrize(
    ("world", "copies", "rule", "words"),
    [
        (2, 2, "stable_adamw", ()),
        (4, 2, "muon", ("train.exchange=batch",)),
    ],
)
def test_copies_of_a_sharded_model_learn_what_one_process_does(
    recipe: Any, bitext: Path, tmp_path: Path, world: int, copies: int, rule: str, words: tuple[str, ...]
) -> None:
    same = ("model.dropout=0", "train.updates=4", "train.valid_every=4", "train.lr=1e-3", "train.log_every=1")
    one = recipe(bitext, "mmlm", tmp_path / "one", *same, f"train.optimizer={rule}", "train.accumulate=8")
    several = recipe(
        bitext,
        "mmlm",
        tmp_path / "several",
        *same,
        f"train.optimizer={rule}",
        f"train.accumulate={8 // world}",
        "train.sharding=hybrid",
        f"train.shard_size={world // copies}",
        *words,
    )
    trained(one, 1)
    if world == 2:
        trained(several, world, stop=2)
        assert not (tmp_path / "several").exists()
    trained(several, world)
    wanted = published(tmp_path / "one")
    for name, tensor in published(tmp_path / "several").items():
        torch.testing.assert_close(
            tensor, wanted[name], rtol=1e-4, atol=5e-6, msg=lambda m, n=name: f"{n}: {m}"
        )
    norms = [
        [float(n) for n in (tmp_path / f"{name}.norms-0").read_text().split()] for name in ("one", "several")
    ]
    assert norms[1] == pytest.approx(norms[0], rel=1e-4) and len(norms[0]) == 4


def test_gradients_are_summed_once_an_update_in_float32(recipe: Any, bitext: Path, tmp_path: Path) -> None:
    """How often each group of weights is summed in an update of three batches, by kind and processes."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    hybrid, batch = ("train.sharding=hybrid", "train.shard_size=2"), "train.exchange=batch"
    cases: list[tuple[tuple[str, ...], dict[tuple[str, int], int]]] = [
        (("train.sharding=none",), {("all_reduce", 4): 1}),
        (("train.sharding=full",), {("reduce_scatter", 4): 1}),
        (("train.sharding=full", batch), {("reduce_scatter", 4): 3}),
        (hybrid, {("reduce_scatter", 2): 1, ("all_reduce", 2): 1}),
        ((*hybrid, batch), {("reduce_scatter", 2): 3, ("all_reduce", 2): 1}),
    ]

    def summed(*words: str) -> tuple[Counter[tuple[str, int]], set[torch.dtype]]:
        cfg = recipe(bitext, "mmlm", tmp_path, "train.accumulate=3", "model.precision=bf16", *words)
        trainer, _ = build_trainer(cfg, tmp_path)
        batches = trainer.get_train_iterator(1, load_dataset=True).next_epoch_itr()
        trainer.begin_epoch(1)
        samples = [next(batches) for _ in range(3)]
        with Traffic() as traffic, suppress(NotFiniteError):  # weights of processes that are not there
            trainer.train_step(samples)
        # What is neither a gradient nor a weight is a few numbers: losses, the norm.
        calls = [call for call in traffic.calls if call.kind != "all_gather" and call.num_bytes > 4096]
        groups = 1 if cfg.train.sharding == "none" else 1 + len(trainer.get_model().encoder.layers)
        counts = Counter((call.kind, call.size) for call in calls)
        assert all(num % groups == 0 for num in counts.values())
        return Counter({key: num // groups for key, num in counts.items()}), {call.dtype for call in calls}

    def work(rank: int) -> None:
        torch.distributed.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
        for words, wanted in cases:
            assert summed(*words) == (Counter(wanted), {torch.float32}), words

    in_processes(1, work)  # the other three only exist in name


@pytest.mark.parametrize(("mode", "share"), [("full", 8), ("hybrid", 2)])
def test_a_rank_is_counted_without_the_others(
    recipe: Any, bitext: Path, tmp_path: Path, mode: str, share: int
) -> None:
    def work(rank: int) -> None:
        words = (word.format(node=2) for word in MODES[mode])
        told = count(recipe(bitext, "mmlm", tmp_path, "train.accumulate=2", *words), 8)
        for part in (told["checkpoint"], told["state"] * 3 / 2, told["gradients"] * 3):  # float32: no masters
            assert part == pytest.approx(told["whole"] / share, rel=0.2)
        model = told["whole"] / 3
        assert told["built"] == pytest.approx(model, rel=0.01), (
            "made whole in every process before it keeps its part"
        )
        # Weights are gathered for each of two batches, some again for the backward pass; gradients are summed once.
        assert 3 * (1 - 1 / share) < told["sent"][share] / model < 5 * (1 - 1 / share)
        if mode == "hybrid":  # four copies sum the halves of their gradients
            assert told["sent"][4] / model == pytest.approx(2 * (3 / 4) / 2, rel=0.05)

    in_processes(1, work)


def test_gradients_are_exchanged_while_the_backward_pass_goes_on(
    recipe: Any, bitext: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    def work(rank: int) -> None:
        torch.distributed.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
        monkeypatch.setattr(processes, "BUCKET_BYTES", 1)  # a bucket for each parameter
        trainer, _ = build_trainer(recipe(bitext, "mmlm", tmp_path, "train.accumulate=2"), tmp_path)
        batches = trainer.get_train_iterator(1, load_dataset=True).next_epoch_itr()
        trainer.begin_epoch(1)
        model, sent = trainer.get_model(), list[int]()
        model.encoder.layers[0].register_full_backward_hook(lambda *_: sent.append(len(traffic.calls)))
        with Traffic() as traffic, suppress(NotFiniteError):  # weights of processes that are not there
            trainer.train_step([next(batches) for _ in range(2)])
        above = [p for name, p in model.named_parameters() if "layers.1." in name or "lm_head.dense" in name]
        assert sent[0] == 0 and sent[1] >= len(above)

    in_processes(1, work)


def test_muon_updates_the_matrices_of_layers_sharded_or_not(
    recipe: Any, bitext: Path, tmp_path: Path
) -> None:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    def work(rank: int) -> None:
        torch.distributed.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
        for sharding in ("none", "full"):
            words = ("train.optimizer=muon", f"train.sharding={sharding}")
            trainer, _ = build_trainer(recipe(bitext, "mmlm", tmp_path, *words), tmp_path)
            groups = trainer.optimizer.param_groups
            parts = sorted(g["parts"] for g in groups if g["rule"] == "muon" for _ in g["params"])
            layers = len(trainer.get_model().encoder.layers)
            assert parts == [1, 1, 1] * layers + [3] * layers, (
                sharding
            )  # out, up, down; queries, keys and values

    in_processes(1, work)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train.sharding=hybrid",), "an unknown number of processes on a node and 2 in all"),
        (("train.sharding=hybrid", "train.shard_size=3"), "3 processes on a node and 2 in all"),
    ],
)
def test_processes_that_make_no_equal_copies_are_refused(
    recipe: Any,
    bitext: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(processes, "size", lambda: 2)
    with pytest.raises(UserError, match=message):
        build_trainer(recipe(bitext, "mmlm", tmp_path, *words), tmp_path)


def test_a_layer_has_its_weights_only_while_it_computes(recipe: Any, bitext: Path, tmp_path: Path) -> None:
    from torch.distributed.tensor import DTensor  # here: every process imports what stands above

    def work(rank: int) -> None:
        with processes.process_group():
            trainer, _ = build_trainer(recipe(bitext, "mmlm", tmp_path, "train.sharding=full"), tmp_path)
            encoder, criterion = trainer.get_model().encoder, trainer.get_criterion()
            weights = encoder.tokens.weight, encoder.layers[0].up.weight
            assert all(isinstance(weight, DTensor) for weight in weights)
            assert sum(len(weight.to_local()) for weight in weights) <= sum(len(w) for w in weights) // 2 + 1
            seen = []

            def compute(*given: Any) -> torch.Tensor:
                seen.append([type(w) for w in (encoder.tokens.weight, encoder.layers[0].up.weight)])
                return encoder.tokens.weight.sum()

            encoder.layers[0].up.register_forward_hook(
                lambda module, *_: seen.append([type(module.weight), type(encoder.layers[1].up.weight)])
            )
            criterion.around(compute)
            criterion.around(lambda: encoder(torch.tensor([5, 6]), torch.arange(2), [(1, 2)]).sum())
            assert not any(issubclass(whole, DTensor) for whole, _ in seen) and len(seen) == 2
            assert all(issubclass(part, DTensor) for _, part in seen)

    in_processes(2, work)


def test_the_momentum_encoder_is_sharded_too(recipe: Any, bitext: Path, tmp_path: Path) -> None:
    from torch.distributed.tensor import DTensor

    def work(rank: int) -> None:
        with processes.process_group():
            words = ("train.sharding=full", "model.precision=bf16")
            trainer, task = build_trainer(recipe(bitext, "xlco", tmp_path, *words), tmp_path)
            state = trainer.get_model().extras["xlco"]
            slow = list(state.slow.parameters())
            kinds: list[type] = []
            trainer.get_criterion().around(lambda: kinds.extend(type(p) for p in slow))
            assert set(kinds) == {DTensor}, "gathered with the weights outside of layers"
            assert sum(processes.local(p).numel() for p in slow) < 0.6 * sum(p.numel() for p in slow)
            dataset, seen = task.build_dataset("valid"), list[torch.dtype]()
            state.slow[0].layers[0].register_forward_hook(lambda *given: seen.append(given[2].dtype))
            trainer.get_criterion().around(state.key, dataset.collater([dataset[0]])["key"])
            assert seen == [torch.bfloat16] and {p.dtype for p in slow} == {torch.float32}

    in_processes(2, work)


def test_processes_agree_whether_all_hold_some_of_a_tensor() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    def work(rank: int) -> None:
        with processes.process_group():
            mesh = init_device_mesh("cpu", (2,))
            for rows, everywhere in ((1, False), (2, True), (3, True)):
                cut = distribute_tensor(torch.ones(rows, 4), mesh, [Shard(0)])
                assert processes.is_everywhere(cut) == everywhere
            assert processes.is_everywhere(torch.ones(1)) and not processes.is_everywhere(torch.ones(0))

    in_processes(2, work)
