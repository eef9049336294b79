"""Generating: against fairseq's search, against one without a cache, and what must hold for any source."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import given, settings
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.data.packing import pack, pack_seq2seq
from xling.data.symbols import Symbols
from xling.models.generate import decode as generating
from xling.models.generate.decode import Hypothesis, allowed_tokens, generate, generate_all, source_example
from xling.models.generate.settings import Search
from xling.models.network.seq2seq import Seq2SeqConfig, Seq2SeqModel
from xling.objectives.seq2seq import example

SYMBOLS = Symbols(40, ("de", "en", "fr"))
EOS, EN, FR = 2, 1, 2


def build(seed: int = 1, **more: Any) -> Seq2SeqModel:
    torch.manual_seed(seed)
    shape = {
        "layers": 2,
        "dim": 16,
        "heads": 2,
        "ffn_dim": 32,
        "max_positions": 24,
        "plain_head": True,
    } | more
    model = Seq2SeqModel(Seq2SeqConfig(**shape), SYMBOLS.size, 3 if more.get("lang_embeddings") else 0)
    for (
        name,
        weight,
    ) in model.named_parameters():  # far from uniform, so that the search has something to find
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.7 if "cross" in name else 1.5 if "table" in name else 0.3)
    return model.double().eval()


T5 = {
    "norm": "rms", "embedding_norm": False, "biases": False, "positions": "relative", "ffn": "gated_gelu",
    "head_dim": 6, "pre_norm": True, "untied_head": True,
}  # fmt: skip
MODELS = {
    "post": build(),
    "pre": build(2, pre_norm=True, lang_embeddings=True, decoder_layers=1),
    "t5": build(3, **T5),
}


def sources(*lengths: int, seed: int = 0) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    return [draw.integers(4, 40, n) for n in lengths]


def search_all(
    model: Seq2SeqModel, given_: list[np.ndarray], search: Search, lang: int = FR, **more: Any
) -> Any:
    return generate_all(model, given_, [EN] * len(given_), [lang] * len(given_), SYMBOLS, search, **more)


def log_probs(model: Seq2SeqModel, source: np.ndarray, lang: int, written: list[int]) -> torch.Tensor:
    """Of the next token, from the whole sequence without any cache, (V,)."""
    made = example(np.append(source, EOS), np.array([*written, 9]), EN, lang, SYMBOLS) | {"id": np.array([0])}
    with torch.no_grad():
        states = model(**pack_seq2seq([made])["net_input"])
        logits = torch.log_softmax(model.decoder.head.logits(states[-1:])[0], -1)
    return logits.masked_fill(~allowed_tokens(SYMBOLS), -torch.inf)


class _Source(FairseqEncoder):
    def __init__(self, model: Seq2SeqModel) -> None:
        super().__init__(None)
        self.model = model

    def forward(self, src_tokens: torch.Tensor, src_lengths: torch.Tensor, **unused: Any) -> dict[str, Any]:
        return {"encoder_out": [src_tokens]}

    def reorder_encoder_out(self, out: dict[str, Any], order: torch.Tensor) -> dict[str, Any]:
        return {"encoder_out": [out["encoder_out"][0].index_select(0, order)]}


class _Target(FairseqIncrementalDecoder):
    """No cache at all: every step reads everything again."""

    def __init__(self, model: Seq2SeqModel) -> None:
        super().__init__(None)
        self.model = model

    def forward(
        self, prev: torch.Tensor, encoder_out: dict[str, Any], incremental_state: Any = None, **unused: Any
    ) -> Any:
        rows = [
            log_probs(self.model, source.numpy(), FR, before.tolist()[1:])
            for source, before in zip(encoder_out["encoder_out"][0], prev, strict=True)
        ]
        return torch.stack(rows)[:, None], {"attn": [None]}

    def get_normalized_probs(self, out: Any, log_probs: bool, sample: Any = None) -> torch.Tensor:
        return out[0]

    def max_positions(self) -> int:
        return 24


def fairseqs(model: Seq2SeqModel, given_: list[np.ndarray], search: Search) -> list[list[Hypothesis]]:
    """What fairseq's own search finds; the sources have one length."""
    dictionary = Dictionary()
    for number in range(4, SYMBOLS.size):
        dictionary.add_symbol(f"piece{number}")
    wrapped = FairseqEncoderDecoderModel(_Source(model), _Target(model))
    searcher = SequenceGenerator(
        [wrapped],
        dictionary,
        beam_size=search.beam,
        max_len_a=search.max_len_a,
        max_len_b=search.max_len_b,
        min_len=search.min_len,
        len_penalty=search.length_penalty,
    )
    tokens = torch.tensor(np.stack(given_))
    sample = {
        "net_input": {"src_tokens": tokens, "src_lengths": torch.tensor([tokens.shape[1]] * len(tokens))}
    }
    found = searcher.generate([wrapped], sample, bos_token=SYMBOLS.lang(FR))
    return [[Hypothesis(h["tokens"][:-1].numpy(), float(h["score"])) for h in hyps] for hyps in found]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "settings_",
    [
        {"beam": 5},
        {"beam": 1},
        {"beam": 3, "length_penalty": 0.5},
        {"beam": 4, "length_penalty": 2.0, "min_len": 3},
        {"beam": 5, "max_len_b": 3},
    ],
)
def test_it_finds_what_fairseq_finds(name: str, settings_: dict[str, Any]) -> None:
    search = Search(**{"max_len_a": 0, "max_len_b": 9} | settings_)
    given_ = sources(5, 5, 5, 5)
    ours = search_all(MODELS[name], given_, search)
    theirs = fairseqs(MODELS[name], given_, search)
    for mine, other in zip(ours, theirs, strict=True):
        assert [h.tokens.tolist() for h in mine] == [h.tokens.tolist() for h in other]
        assert [h.score for h in mine] == pytest.approx([h.score for h in other], rel=1e-5)
    assert len({tuple(mine[0].tokens) for mine in ours}) > 1


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_the_whole_sequence(name: str) -> None:
    search = Search(beam=4, length_penalty=0.7)
    given_ = sources(3, 8, 5, 8)
    for source, found in zip(given_, search_all(MODELS[name], given_, search), strict=True):
        assert len(found) == 4
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        for tokens, score in found:
            whole = [*tokens.tolist(), EOS]
            summed = sum(
                float(log_probs(MODELS[name], source, FR, whole[:i])[token]) for i, token in enumerate(whole)
            )
            assert score == pytest.approx(summed / len(whole) ** 0.7, rel=1e-5)


def test_greedy_takes_the_best_token_each_time() -> None:
    given_ = sources(4, 7, 2)
    for source, (found,) in zip(given_, search_all(MODELS["post"], given_, Search(beam=1)), strict=True):
        written: list[int] = []
        while len(written) < len(found.tokens):
            following = log_probs(MODELS["post"], source, FR, written)
            if not written:
                following[EOS] = -torch.inf
            written.append(int(following.argmax()))
        assert found.tokens.tolist() == written


@settings(max_examples=20)
@given(
    lengths=st.lists(st.integers(0, 12), max_size=9), beam=st.integers(1, 4), batch_tokens=st.integers(1, 60)
)
def test_a_batch_finds_what_each_source_finds_alone(lengths: list[int], beam: int, batch_tokens: int) -> None:
    given_, search = sources(*lengths), Search(beam=beam, max_len_b=4)
    together = search_all(MODELS["post"], given_, search, batch_tokens=batch_tokens)
    assert len(together) == len(given_)
    for source, found in zip(given_, together, strict=True):
        (alone,) = search_all(MODELS["post"], [source], search)
        assert [h.tokens.tolist() for h in found] == [h.tokens.tolist() for h in alone]
        assert [h.score for h in found] == pytest.approx([h.score for h in alone])
        assert len(found[0].tokens) <= 1.5 * (len(source) + 2) + 4
        assert all(4 <= token < 40 for h in found for token in h.tokens.tolist())


def test_the_language_token_is_what_the_decoder_reads_first() -> None:
    given_ = sources(6, 6, 6, 6)
    in_french, in_german = (search_all(MODELS["post"], given_, Search(), lang) for lang in (FR, 0))
    assert any(
        a[0].tokens.tolist() != b[0].tokens.tolist() for a, b in zip(in_french, in_german, strict=True)
    )
    both = generate_all(MODELS["post"], given_, [EN] * 4, [FR, 0, FR, 0], SYMBOLS, Search())
    for number, found in enumerate(both):
        wanted = (in_french, in_german)[number % 2][number]
        assert found[0].tokens.tolist() == wanted[0].tokens.tolist()


def test_only_allowed_pieces_are_written() -> None:
    pieces = torch.zeros(SYMBOLS.size, dtype=torch.bool)
    pieces[10:20] = True
    for search in (Search(), Search(beam=1, sample=True)):
        for found in search_all(MODELS["post"], sources(5, 6, 7), search, pieces=pieces):
            assert all(10 <= token < 20 for h in found for token in h.tokens.tolist())
    assert allowed_tokens(SYMBOLS).nonzero().flatten().tolist() == [2, *range(4, 40)]


def test_sampling_draws_from_the_distribution() -> None:
    (source,) = sources(5)
    model = MODELS["post"]
    wanted = log_probs(model, source, FR, [])
    wanted[EOS] = -torch.inf
    wanted = torch.softmax(wanted, -1)
    found = search_all(model, [source] * 4000, Search(beam=1, sample=True, max_len_a=0, max_len_b=1))
    drawn = np.bincount([int(h[0].tokens[0]) for h in found], minlength=SYMBOLS.size) / 4000
    assert np.abs(drawn - wanted.numpy()).max() < 0.03
    cold = search_all(model, [source] * 50, Search(beam=1, sample=True, temperature=1e-4))
    (greedy,) = search_all(model, [source], Search(beam=1))
    draws = [tuple(h[0].tokens) for h in search_all(model, [source] * 600, Search(beam=1, sample=True))]
    assert draws[: 2048 // 7] != draws[2048 // 7 : 2 * (2048 // 7)]  # every batch draws its own
    assert {tuple(h[0].tokens) for h in cold} == {tuple(greedy[0].tokens)}
    top = search_all(model, [source] * 500, Search(beam=1, sample=True, top_k=3, max_len_a=0, max_len_b=1))
    assert {int(h[0].tokens[0]) for h in top} == set(wanted.topk(3).indices.tolist())


def test_the_same_seed_draws_the_same() -> None:
    given_ = sources(5, 7, 9)
    first, again, other = (
        [
            tuple(h[0].tokens)
            for h in search_all(MODELS["post"], given_, Search(beam=1, sample=True, seed=seed))
        ]
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_the_model_is_left_as_it_was() -> None:
    model = build(dropout=0.5).train()
    model.extras["frozen"] = torch.nn.Dropout().train()
    sample = pack([source_example(source, EN, i, SYMBOLS) for i, source in enumerate(sources(4, 4))])
    once, again = (
        generate(model, sample["net_input"], torch.tensor([FR, FR]), SYMBOLS, Search()) for _ in range(2)
    )
    assert [h[0].tokens.tolist() for h in once] == [h[0].tokens.tolist() for h in again]
    assert model.training and model.decoder.layers[0].training and model.extras["frozen"].training
    assert all(p.grad is None for p in model.parameters())


def test_outputs_end_at_the_last_position() -> None:
    model = build(5)
    with torch.no_grad():
        model.decoder.head.bias[EOS] = -1000
    for search in (Search(max_len_a=0, max_len_b=500), Search(max_len_a=0, max_len_b=6)):
        limit = min(search.max_len_b, 23)
        for found in search_all(model, sources(4, 20, 6), search):
            assert {len(h.tokens) for h in found} == {limit}


def test_every_source_has_an_output_even_where_nothing_can_end() -> None:
    (found,) = search_all(MODELS["post"], sources(4), Search(min_len=9, max_len_a=0, max_len_b=2))
    assert {len(h.tokens) for h in found} == {2}
    broken = build(6)
    with torch.no_grad():
        broken.decoder.head.bias.fill_(torch.nan)
    for ((tokens, score),) in search_all(broken, sources(4, 5), Search(beam=2)):
        assert len(tokens) == 0 and score == -np.inf


@pytest.mark.parametrize("name", ["post", "t5"])
def test_a_batch_of_uneven_ends_shrinks(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(generating, "MIN_DONE_SHARE", 0.0)
    eager = search_all(MODELS[name], sources(*range(2, 12)), Search())
    monkeypatch.setattr(generating, "MIN_DONE_SHARE", 1.0)
    lazy = search_all(MODELS[name], sources(*range(2, 12)), Search())
    for a, b in itertools.zip_longest(eager, lazy):
        assert [h.tokens.tolist() for h in a] == [h.tokens.tolist() for h in b]


@pytest.mark.parametrize(
    ("given_", "pattern"),
    [
        ({"beam": 0}, "beam=0; valid: a number from 1"),
        ({"sample": True}, "sample with beam=5; valid: beam=1"),
        ({"beam": 1, "sample": True, "temperature": 0}, "temperature=0; valid: a number above 0"),
        ({"max_len_b": 0}, "max_len_b=0"),
    ],
)
def test_settings_that_cannot_be_are_named(given_: dict[str, Any], pattern: str) -> None:
    with pytest.raises(UserError, match=pattern):
        Search(**given_)


@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 900), st.integers(0, 5))
def test_the_largest_are_those_of_topk(rows: int, count: int, size: int, seed: int) -> None:
    count = min(count, size)
    scores = torch.randn(rows, 2, 3 * size, generator=torch.Generator().manual_seed(seed))
    scores[..., ::3] = -torch.inf
    values, places = generating.largest_scores(scores, count)
    assert torch.equal(values, scores.topk(count, -1).values)
    assert torch.equal(scores.gather(-1, places), values)
    assert places.sort(-1).values.diff(dim=-1).ne(0).all(), "a place stands twice"


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_runs_of_barred_ids_are_those_that_are_barred(flags: list[bool]) -> None:
    runs = generating.find_true_runs(torch.tensor(flags))
    assert len(runs) == sum(b and not a for a, b in itertools.pairwise([False, *flags]))
    assert [any(begin <= i < end for begin, end in runs) for i in range(len(flags))] == flags


@pytest.mark.parametrize("name", ["post", "t5"])
def test_throwing_out_of_the_cache_what_is_no_ancestor_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    model, given_ = MODELS[name], sources(4)
    search = Search(beam=3, max_len_b=4)
    made, compact, kept = [], generating._LayerCache.compact, []

    def noting(self: Any, slots: torch.Tensor) -> None:
        kept.append(slots.shape[1] / len(self.past))
        compact(self, slots)

    monkeypatch.setattr(generating._LayerCache, "compact", noting)
    for chunk in (1000, 4):  # 1000: never
        monkeypatch.setattr(generating, "CACHE_CHUNK_STEPS", chunk)
        made.append(search_all(model, given_, search))
        assert bool(kept) == (chunk == 4)
    assert max(kept) <= 0.5
    for first, second in zip(*made, strict=True):
        assert [h.tokens.tolist() for h in first] == [h.tokens.tolist() for h in second]
        assert [h.score for h in first] == pytest.approx([h.score for h in second], abs=1e-9)


def test_the_longest_sources_are_generated_first() -> None:
    """A batch that needs too much memory is the first, not the last of an hour."""
    batches: list[int] = []
    generate_all(
        MODELS["post"], sources(1, 6, 2), [EN] * 3, [FR] * 3, SYMBOLS, Search(),
        batch_tokens=8, on_batch=lambda num, _: batches.append(num),
    )  # fmt: skip
    assert batches == [1, 2]
