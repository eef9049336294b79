"""Runs pieces of the papers' own code on small inputs and writes what they gave to ``recorded.json``.

Run:  python tests/parity/record.py FOLDER [FOLDER ...]

Each FOLDER is a clone of one of `REPOSITORIES`, with a work tree or without. Nothing of their code is kept: a function
is read from the last commit, run in a namespace of ours, and its numbers are written with the repository, the commit
and the path. `tests/parity/test_parity.py` compares ours with the numbers and needs none of the repositories.

T5's mask is written for TensorFlow; the few operations that it calls are done here by numpy.
"""

from __future__ import annotations

import ast
import json
import math
import random
import subprocess
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import data_utils

OUT = Path(__file__).with_name("recorded.json")
DRAWS = 100_000
REPOSITORIES = {
    "fairseq": "facebookresearch/fairseq",
    "unilm": "microsoft/unilm",
    "MASS": "microsoft/MASS",
    "XLM": "facebookresearch/XLM",
    "XNLG": "CZWin32768/XNLG",
    "text-to-text-transfer-transformer": "google-research/text-to-text-transfer-transformer",
}
# The text of the noises: 40 tokens; pieces from 10 begin a word where they are even; 2 ends a sentence.
BOS, EOS, PAD, FIRST, VOCAB = 0, 2, 1, 4, 60
MASK, LANG = 60, 61


def text() -> list[int]:
    """Three sentences of 34 pieces, each with its ``</s>``."""
    pieces = np.random.RandomState(3).randint(10, VOCAB, 34).tolist()
    return [*pieces[:9], EOS, *pieces[9:21], EOS, *pieces[21:], EOS]


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Normal numbers that every version of numpy draws alike, float32."""
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


class Reference:
    """A clone: its pieces by path and name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commit = self.git("rev-parse", "HEAD").strip()

    def git(self, *words: str) -> str:
        """What git says in the clone."""
        done = subprocess.run(
            ["git", "-C", str(self.folder), *words], check=True, capture_output=True, text=True
        )
        return done.stdout

    def piece(self, path: str, name: str, **names: Any) -> Any:
        """A function, class or ``Class.method`` of a file, run with ``names`` around it."""
        node: Any = ast.parse(self.git("show", f"HEAD:{path}"))
        for part in name.split("."):
            node = next(n for n in node.body if getattr(n, "name", None) == part)
        node.decorator_list = []
        space = {"np": np, "torch": torch, "math": math, "random": random, "data_utils": data_utils, **names}
        exec(compile(ast.Module([node], []), f"{self.folder.name}/{path}", "exec"), space)
        return space[node.name]


def histogram(draw: Callable[[int], Iterable[Any]], draws: int = DRAWS) -> dict[str, int]:
    """How often each value came."""
    return {str(key): n for key, n in sorted(Counter(v for i in range(draws) for v in draw(i)).items())}


INFOXLM = "infoxlm/src-infoxlm/infoxlm"


def record_contrast(unilm: Reference) -> dict[str, Any]:
    """InfoXLM's loss and its gradient."""
    loss = unilm.piece(
        f"{INFOXLM}/criterions/xlco.py",
        "XlCoCriterion.contrastive_loss",
        utils=types.SimpleNamespace(item=lambda x: x.item()),
    )
    settings = types.SimpleNamespace(xlco_softmax_tau=0.25)
    self = types.SimpleNamespace(args=settings, criterion=torch.nn.CrossEntropyLoss(reduction="sum"))
    shapes = ((1, (6, 16)), (2, (6, 16)), (3, (32, 16)))
    query, key, queue = (torch.from_numpy(numbers(seed, *shape)) for seed, shape in shapes)
    query.requires_grad_()
    torch.Tensor.cuda = lambda self: self  # type: ignore[method-assign, assignment] - the labels go to a GPU there
    value, _ = loss(self, query, key, queue)
    value.backward()
    assert query.grad is not None
    return {"loss": value.item(), "gradient": query.grad.tolist()}


def record_momentum(unilm: Reference) -> dict[str, Any]:
    """InfoXLM's queue after four pushes, and its momentum encoder after a step."""
    path = f"{INFOXLM}/models/infoxlm.py"
    push = unilm.piece(path, "InfoXlmModel.update_queue", concat_all_gather=lambda x: x)
    held = types.SimpleNamespace(queue=torch.zeros(8, 1), queue_size=8)
    held.queue_ptr, held.enqueue_cnt = torch.zeros(1, dtype=torch.long), torch.zeros(1)
    states = []
    for first, count in ((0, 3), (3, 4), (7, 5), (12, 8)):
        push(held, torch.arange(first, first + count).float()[:, None] + 1)
        states.append(held.queue[:, 0].tolist())
    follow = unilm.piece(path, "InfoXlmModel.update_slow_weight")
    fast, slow = torch.nn.Linear(3, 2, bias=False), torch.nn.Linear(3, 2, bias=False)
    fast.weight.data, slow.weight.data = (
        torch.from_numpy(numbers(4, 2, 3)),
        torch.from_numpy(numbers(5, 2, 3)),
    )
    slow.requires_grad_(False)
    follow(types.SimpleNamespace(model_fast=fast, model_slow=slow, use_proj=False), 0.9)
    return {"queue": states, "slow": slow.weight.tolist()}


def record_pairs(unilm: Reference) -> dict[str, Any]:
    """How InfoXLM joins two pairs; the layout of its TLM."""
    pairs = [torch.tensor([BOS, token, EOS]) for token in (10, 20, 11, 21)]
    get = unilm.piece(f"{INFOXLM}/data/xlco_dataset.py", "XlcoDataset.__getitem__")
    vocab = types.SimpleNamespace(bos=lambda: BOS)
    whole = types.SimpleNamespace(
        dataset=_Endless(pairs), seed=1, epoch=0, vocab=vocab, remove_bos_of_item2=True
    )

    def mixed(index: int) -> Iterable[str]:
        made = get(whole, index)
        yield f"{made['source'].tolist()} {made['target'].tolist()}"

    lay = unilm.piece(f"{INFOXLM}/data/tlm_dataset.py", "TLMDataset.__getitem__")
    sides = types.SimpleNamespace(
        src_dataset=[torch.tensor([10, 11])], tgt_dataset=[torch.tensor([20, 21, 22])]
    )
    sides.bos, sides.eos = BOS, EOS
    return {"mixed": histogram(mixed), "tlm": lay(sides, 0).tolist()}


class _Endless:
    """The same four sentences again and again."""

    def __init__(self, items: list[torch.Tensor]) -> None:
        self.items = items

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.items[index % len(self.items)]


def record_mbart(fairseq: Reference) -> dict[str, Any]:
    """What the noise of mBART leaves of `text`, and the sequences of an example."""
    path = "fairseq/data/denoising_dataset.py"
    made = fairseq.piece(path, "DenoisingDataset", FairseqDataset=object)
    whole = torch.tensor([BOS, *text(), LANG])
    starts = torch.tensor([int(i < FIRST or i % 2 == 0 or i >= VOCAB) for i in range(LANG + 1)])
    vocab = types.SimpleNamespace(eos=lambda: EOS, bos=lambda: BOS, pad=lambda: PAD, __len__=lambda: LANG + 1)
    vocab = type("Vocab", (), {name: staticmethod(call) for name, call in vars(vocab).items()})()
    noise = made(
        dataset=_Endless([whole]), sizes=np.array([len(whole)]), vocab=vocab, mask_idx=MASK, mask_whole_words=starts,
        shuffle=False, seed=1, mask=0.35, mask_random=0.0, insert=0.0, rotate=0.0, permute_sentences=1.0,
        bpe="sentencepiece", replace_length=1, mask_length="span-poisson", poisson_lambda=3.5, eos=LANG,
    )  # fmt: skip
    torch.manual_seed(1)
    sources = [noise[i]["source"].tolist() for i in range(DRAWS)]
    collate = fairseq.piece(path, "collate", data_utils=data_utils)
    small = torch.tensor([BOS, 10, 11, EOS, LANG])
    batch = collate([{"id": 0, "source": small, "target": small}], PAD, LANG, vocab)
    return {
        "masks": histogram(lambda i: [sources[i].count(MASK)]),
        "ends": histogram(lambda i: [sources[i].count(EOS)]),
        "length": histogram(lambda i: [len(sources[i])]),
        "first mask": histogram(lambda i: [sources[i].index(MASK)]),
        "first": histogram(lambda i: [next(t for t in sources[i][1:] if t != MASK)]),
        "previous": batch["net_input"]["prev_output_tokens"][0].tolist(),
        "target": batch["target"][0].tolist(),
    }


def record_losses(fairseq: Reference) -> dict[str, Any]:
    """Label smoothing and the shares of languages."""
    smooth = fairseq.piece("fairseq/criterions/label_smoothed_cross_entropy.py", "label_smoothed_nll_loss")
    logits = torch.from_numpy(numbers(6, 5, 12))
    target = torch.tensor([0, 11, 4, 4, 7])
    shares = fairseq.piece(
        "fairseq/tasks/multilingual_masked_lm.py", "MultiLingualMaskedLMTask._get_sample_prob"
    )
    sizes = np.array([1e9, 3e7, 2e5, 900.0])
    made = {}
    for epsilon in (0.0, 0.1, 0.2):
        loss, nll = smooth(torch.log_softmax(logits, -1), target, epsilon)
        made[str(epsilon)] = [loss.item(), nll.item()]
    alphas = {
        str(alpha): shares(
            types.SimpleNamespace(args=types.SimpleNamespace(multilang_sampling_alpha=alpha)), sizes
        ).tolist()
        for alpha in (0.3, 0.5, 0.7)
    }
    return {"smoothed": made, "sizes": sizes.tolist(), "alpha": alphas}


def record_mass(mass: Reference) -> dict[str, Any]:
    """Where MASS's spans begin in sentences of 10 and 11 tokens, what the decoder reads, what is hidden."""
    path = "MASS-unsupNMT/src/trainer.py"
    names = ("mask_word", "unfold_segments", "shuffle_segments", "get_segments", "restricted_mask_sent")
    methods = {name: mass.piece(path, f"EncDecTrainer.{name}") for name in names}
    params = types.SimpleNamespace(
        word_mass=0.5, n_words=VOCAB, mask_index=MASK, pad_index=PAD, pred_probs=torch.tensor([0.8, 0.1, 0.1])
    )
    trainer = type("Trainer", (), methods)()
    trainer.params = params
    np.random.seed(1)
    random.seed(1)
    torch.manual_seed(1)
    found: dict[str, Any] = {}
    for size in (9, 10):
        words = [EOS, *range(10, 10 + size), EOS]
        x, length = torch.tensor(words)[:, None], torch.tensor([len(words)])

        def draw(_: int, x: torch.Tensor = x, length: torch.Tensor = length) -> Iterable[str]:
            _, _, before, _, target, _, positions = trainer.restricted_mask_sent(x, length)
            first = int(positions[0, 0])
            assert before[:, 0].tolist() == x[first : first + len(target), 0].tolist()
            yield f"{first}+{len(target)}"

        found[str(size)] = histogram(draw)
    fates = Counter()
    for _ in range(4000):
        masked, *_ = trainer.restricted_mask_sent(x, length)
        fates["mask"] += int((masked == MASK).sum())
    return {"spans": found, "masked of 4000": fates["mask"]}


def record_dae(clone: Reference, path: str, owner: str) -> dict[str, Any]:
    """What shuffling, dropping and blanking leave of twelve pieces."""
    names = ("word_shuffle", "word_dropout", "word_blank", "add_noise")
    methods = {name: clone.piece(path, f"{owner}.{name}") for name in names}
    trainer = type("Trainer", (), methods)()
    trainer.params = types.SimpleNamespace(
        word_shuffle=3, word_dropout=0.1, word_blank=0.1, eos_index=EOS, pad_index=PAD, mask_index=MASK
    )
    np.random.seed(1)
    words = [EOS, *range(10, 22), EOS]
    x = torch.tensor(words)[:, None].repeat(1, DRAWS)
    made, lengths = trainer.add_noise(x, torch.full((DRAWS,), len(words)))
    rows = [made[1 : lengths[i] - 1, i].tolist() for i in range(DRAWS)]
    return {
        "length": histogram(lambda i: [len(rows[i])]),
        "masks": histogram(lambda i: [rows[i].count(MASK)]),
        "moved": histogram(lambda i: [rows[i].index(15) if 15 in rows[i] else -1]),
        "alone": _alone(trainer),
    }


def _alone(trainer: Any) -> dict[str, int]:
    """Lengths that dropping nine of ten leaves of three pieces: one always stays."""
    trainer.params.word_dropout, trainer.params.word_shuffle, trainer.params.word_blank = 0.9, 0, 0
    x = torch.tensor([EOS, 10, 11, 12, EOS])[:, None].repeat(1, 4000)
    made, lengths = trainer.add_noise(x, torch.full((4000,), 5))
    return histogram(lambda i: [str(made[1 : lengths[i] - 1, i].tolist())], 4000)


def record_xae(xnlg: Reference) -> dict[str, Any]:
    """What encoder and decoder of XNLG's XAE read of a pair, and what is predicted where."""
    seen: dict[str, Any] = {}
    x, y = (torch.tensor([[EOS, *words, EOS]]).t() for words in ([10, 11], [20, 21, 22]))

    def encoder(_: str, x: torch.Tensor, lengths: torch.Tensor, langs: torch.Tensor, causal: bool) -> Any:
        seen["source"], seen["source langs"] = x[:, 0].tolist(), langs[:, 0].tolist()
        return torch.zeros(*x.shape, 4)

    def decoder(mode: str, **given: Any) -> Any:
        if mode == "fwd":
            seen["read"], seen["target langs"] = given["x"][:, 0].tolist(), given["langs"][:, 0].tolist()
            return None
        places = given["pred_mask"][:, 0].nonzero()[:, 0]
        seen["read"] = [seen["read"][place] for place in places]
        seen["target langs"] = [seen["target langs"][place] for place in places]
        seen["target"] = given["y"].tolist()
        return None, torch.zeros(())

    both = {"encoder": encoder, "decoder": decoder}
    coders = {
        name: type(name, (), {"__call__": staticmethod(f), "train": lambda _: None})()
        for name, f in both.items()
    }
    trainer = types.SimpleNamespace(
        **coders,
        params=types.SimpleNamespace(lang2id={"a": 0, "b": 1}, batch_size=1),
        stats={"MT-a-b": [], "processed_s": 0, "processed_w": 0},
        get_batch=lambda *_: ((x, torch.tensor([4])), (y, torch.tensor([5]))),
        optimize=lambda _: None,
        n_sentences=0,
    )
    step = xnlg.piece("xnlg/src/trainer.py", "EncDecTrainer.mt_step", to_cuda=lambda *tensors: tensors)
    step(trainer, "a", "b", 1.0)
    return seen


def record_xlm(xlm: Reference) -> dict[str, Any]:
    """XLM's TLM layout and its noise."""
    lay = xlm.piece("xlm/utils.py", "concat_batches")
    x, y = (torch.tensor([[EOS, *words, EOS]]).t() for words in ([10, 11], [20, 21, 22]))
    tokens, _, positions, langs = lay(x, torch.tensor([4]), 0, y, torch.tensor([5]), 1, PAD, EOS, True)
    made = {
        "tokens": tokens[:, 0].tolist(),
        "positions": positions[:, 0].tolist(),
        "langs": langs[:, 0].tolist(),
    }
    return {"tlm": made, "dae": record_dae(xlm, "xlm/trainer.py", "Trainer")}


def record_t5(t5: Reference) -> dict[str, Any]:
    """Lengths of T5's texts, and the masks of 40 tokens."""
    path = "t5/data/preprocessors.py"
    lengths = t5.piece(path, "random_spans_helper", gin=types.SimpleNamespace(REQUIRED=None), logging=None)
    cases = [
        (size, share, mean)
        for size in (32, 64, 128, 512, 1024)
        for share, mean in ((0.15, 3.0), (0.3, 5.0), (0.5, 2.0))
    ]
    sizes = [[*case, *lengths(*case, 1, 1)] for case in cases if case[1] != 0.5 or case[0] < 128]
    draw = t5.piece(path, "random_spans_noise_mask", tf=_Numpy, seqio=_Numpy)
    _Numpy.rng = np.random.RandomState(1)

    def mask(size: int) -> np.ndarray:
        return np.asarray(draw(size, 0.15, [0, 0], 3.0))

    masks = [mask(40) for _ in range(DRAWS)]
    counts = {
        str(size): [int(mask(size).sum()), _runs(mask(size))]
        for size in (2, 3, 7, 10, 20, 30, 33, 50, 70, 110, 511)
    }
    return {
        "sizes": sizes,
        "counts": counts,
        "first": histogram(lambda i: [int(np.argmax(masks[i]))]),
        "longest": histogram(lambda i: [_longest(masks[i])]),
    }


def _runs(mask: np.ndarray) -> int:
    return int((np.diff(np.concatenate([[0], mask.astype(int)])) == 1).sum())


def _longest(mask: np.ndarray) -> int:
    return max(len(run) for run in "".join("x" if hit else " " for hit in mask).split())


class _Numpy:
    """What T5's mask calls of TensorFlow and SeqIO, by numpy."""

    rng: np.random.RandomState
    int32, float32, bool = np.int32, np.float32, np.bool_
    maximum, minimum, zeros = staticmethod(np.maximum), staticmethod(np.minimum), staticmethod(np.zeros)
    cast = staticmethod(lambda x, kind: np.asarray(x).astype(kind))
    round = staticmethod(lambda x: np.round(np.asarray(x, dtype=np.float32)))
    pad, range, cumsum = staticmethod(np.pad), staticmethod(np.arange), staticmethod(np.cumsum)
    ones_like, reshape, equal = staticmethod(np.ones_like), staticmethod(np.reshape), staticmethod(np.equal)
    stack = staticmethod(lambda parts, axis: np.stack(parts, axis))
    math = types.SimpleNamespace(
        segment_sum=lambda ones, ids: np.bincount(ids, ones).astype(np.int32),
        unsorted_segment_sum=lambda ones, ids, size: np.bincount(ids, ones, size).astype(np.int32),
    )

    @classmethod
    def stateless_shuffle(cls, values: Any, seed: Any) -> np.ndarray:
        return cls.rng.permutation(values)


def main(folders: list[str]) -> int:
    """Record all of it."""
    if len(folders) != len(REPOSITORIES):
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    clones = {}
    for folder in map(Path, folders):
        name = next(
            n for n, full in REPOSITORIES.items() if full.replace("/", "+") in str(folder) or folder.name == n
        )
        clones[name] = Reference(folder)
    torch.set_num_threads(1)
    unilm = clones["unilm"]
    made = {
        "versions": {REPOSITORIES[name]: clone.commit for name, clone in clones.items()},
        "draws": DRAWS,
        "infoxlm": record_contrast(unilm) | record_momentum(unilm) | record_pairs(unilm),
        "mbart": record_mbart(clones["fairseq"]),
        "losses": record_losses(clones["fairseq"]),
        "mass": record_mass(clones["MASS"]),
        "xlm": record_xlm(clones["XLM"]),
        "xnlg": {
            "dae": record_dae(clones["XNLG"], "xnlg/src/trainer.py", "Trainer"),
            "xae": record_xae(clones["XNLG"]),
        },
        "t5": record_t5(clones["text-to-text-transfer-transformer"]),
    }
    OUT.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
