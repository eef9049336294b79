"""T5 and mT5 in and out: the same logits, the same ids, the same outputs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece as spm
import torch
from torch import nn

from tests.hub.differences import largest
from tests.hub.t5.conftest import KINDS, NUM_PIECES, SHAPE
from tests.hub.test_export import ODD
from tests.hub.test_import import set_config
from tests.hub.test_mbart import LINES, ours, publish
from tests.hub.written import compare
from xling import cli
from xling.core.settings import config
from xling.data.packing import pack_seq2seq
from xling.data.symbols import Symbols
from xling.hub import t5, unsupported_parts
from xling.hub.export import ExportConfig
from xling.hub.export import run_hf as export_hf
from xling.hub.imports import ImportConfig
from xling.hub.imports import run_hf as import_hf
from xling.models.files import model_weights
from xling.models.network.seq2seq import Seq2SeqConfig, Seq2SeqModel
from xling.objectives.seq2seq import example
from xling.objectives.span_corruption import split_spans
from xling.text import vocab as vocabulary
from xling.training.settings import PretrainConfig
from xling.transfer.encode import encode_pieces


def their_class(folder: Path) -> Any:
    import transformers

    (name,) = json.loads((folder / "config.json").read_text())["architectures"]
    return getattr(transformers, name).from_pretrained(folder).eval()


def their_ids(kind: str, folder: Path) -> list[int]:
    """The id there of each of ours."""
    num = NUM_PIECES[kind]
    own = {"<s>": 0, "<pad>": 0, "</s>": 1, "<unk>": 2, "<mask>": 0, "[en]": 0, "[sw]": 0, "[th]": 0}
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    names += [line.rsplit(" ", 1)[0] for line in (folder / "dict.txt").read_text("utf-8").splitlines()]
    pieces_there = {name: i + 3 for i, name in enumerate(names[4:])}
    sentinels = {f"<extra_id_{i}>": num + 99 - i for i in range(100)}
    assert len(pieces_there) == num - 3
    names += ["<mask>", "[en]", "[sw]", "[th]", *sentinels]
    return [(own | pieces_there | sentinels)[name] for name in names]


@pytest.mark.parametrize("kind", KINDS)
def test_t5_gives_the_same_logits_here(
    foreigns: Callable[[str], Path], imports: Callable[[str], Path], kind: str
) -> None:
    """One packed batch of ours, one padded batch of theirs, longer than the furthest bucket."""
    theirs, folder = their_class(foreigns(kind)), imports(kind)
    model, symbols = model_weights.load_seq2seq(folder)
    ids = their_ids(kind, folder)
    assert symbols.langs == ("en", "sw", "th") and symbols.sentinels == 100 and not symbols.source_lang
    assert model.cfg.untied_head == (kind != "t5") and symbols.size == len(ids)
    draw = np.random.default_rng(0)
    lengths = ((3, 5), (200, 150), (3, 2), (40, 5))
    rows = [[draw.integers(4, symbols.mask, n) for n in both] for both in lengths]
    rows[3][0][:2] = symbols.sentinel(0), symbols.sentinel(99)
    made = [
        example(np.append(src, 2), np.append(tgt, 2), 0, i % 3, symbols) | {"id": np.array([i])}
        for i, (src, tgt) in enumerate(rows)
    ]
    sample = pack_seq2seq(made)
    with torch.inference_mode():
        found = model.eval().decoder.head.logits(model(**sample["net_input"]))
        for part, number in zip(
            found.split([len(made[i]["target"]) for i in sample["id"].tolist()]),
            sample["id"].tolist(),
            strict=True,
        ):
            src, tgt = ([ids[t] for t in side] for side in rows[number])
            padding = 300 - len(src)
            wanted = theirs(
                input_ids=torch.tensor([[*src, 1] + [0] * padding]),
                attention_mask=torch.tensor([[1] * (len(src) + 1) + [0] * padding]),
                decoder_input_ids=torch.tensor([[0, *tgt]]),
            ).logits[0]
            assert part.abs().max() > 1
            assert largest(wanted[:, ids], part) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_their_sentencepiece(
    spiece: Callable[[str], Path], imports: Callable[[str], Path], kind: str
) -> None:
    folder, theirs = imports(kind), spm.SentencePieceProcessor(model_file=str(spiece(kind)))
    processor, ids = vocabulary.load_processor(folder), their_ids(kind, folder)
    for line in [*ODD, *LINES]:
        found = encode_pieces(processor, line)
        assert [ids[t] for t in found] == theirs.encode(line), repr(line[:80])
        if 3 not in found:
            assert processor.decode([t - 1 for t in found]) == theirs.decode(theirs.encode(line))
    assert (3 in encode_pieces(processor, "ж")) == (kind != "mt5")


def test_sentinels_are_those_of_span_corruption(imported: Path) -> None:
    _, symbols = model_weights.load_seq2seq(imported)
    ids = their_ids("mt5", imported)
    source, target = split_spans(np.arange(4, 41), 0.15, 3.0, symbols, np.random.default_rng(1))
    there = [[ids[t] for t in side] for side in (source, target)]
    assert [t for t in there[0] if t >= 390] == [489, 488] == [t for t in there[1] if t >= 390]
    assert there[0][-1] == there[1][-1] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_in_and_out_again_gives_the_same_logits(
    foreigns: Callable[[str], Path], imports: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    export_hf(ExportConfig(imports(kind), tmp_path / "out"))
    first, second, ids = (
        their_class(foreigns(kind)),
        their_class(tmp_path / "out"),
        their_ids(kind, imports(kind)),
    )
    source, target = [5, 77, 9, 30, 2], [8, 60, 4, 121]
    lang = len(ids) - 102  # [sw]
    with torch.inference_mode():
        wanted = first(
            torch.tensor([[ids[t] for t in source]]),
            decoder_input_ids=torch.tensor([[0, *(ids[t] for t in target)]]),
        )
        found = second(torch.tensor([source]), decoder_input_ids=torch.tensor([[lang, *target]]))
    assert largest(wanted.logits[..., ids], found.logits) < 1e-5
    import_hf(ImportConfig(tmp_path / "out", tmp_path / "again"))
    one, two = (model_weights.load_seq2seq(x) for x in (imports(kind), tmp_path / "again"))
    assert one[1] == two[1] and one[0].cfg == two[0].cfg
    for name, weight in one[0].state_dict().items():
        torch.testing.assert_close(weight, two[0].state_dict()[name], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"untied_head": False, "ffn": "relu", "source_lang": True},
        {"ffn": "gelu", "head_dim": 0, "decoder_layers": 0},
    ],
)
def test_transformers_gives_the_logits_of_ours(vocab: Path, tmp_path: Path, more: dict[str, Any]) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MT5ForConditionalGeneration

    folder = publish(tmp_path / "m", vocab, **SHAPE | more)
    export_hf(ExportConfig(folder, tmp_path / "out"))
    theirs, report = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert isinstance(theirs, MT5ForConditionalGeneration)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    symbols, processor = model_weights.load_seq2seq(folder)[1], vocabulary.load_processor(folder)
    fast = AutoTokenizer.from_pretrained(tmp_path / "out")
    for number, line in enumerate(LINES):
        src, tgt = number % 3, (number + 1) % 3
        source, target = encode_pieces(processor, line)[:60], encode_pieces(processor, LINES[number - 1])[:60]
        given = [line, f"[{symbols.langs[src]}]"] if symbols.source_lang else [line]
        tokens = fast(*given)["input_ids"]
        wanted = [*source, 2] + [symbols.lang(src)] * symbols.source_lang
        assert tokens == wanted
        with torch.inference_mode():
            found = theirs.eval()(
                torch.tensor([tokens]), decoder_input_ids=torch.tensor([[symbols.lang(tgt), *target]])
            ).logits[0]
        mine = ours(folder, source, target, src, tgt)
        assert mine.abs().max() > 1
        assert largest(found, mine) < 1e-5


@pytest.mark.parametrize("beam", [1, 4])
def test_transformers_writes_what_we_write(vocab: Path, tmp_path: Path, beam: int) -> None:
    folder = publish(tmp_path / "m", vocab, **SHAPE)
    model, symbols = model_weights.load_seq2seq(folder)
    with torch.no_grad():  # outputs that end before the limit, where transformers forces them to
        model.decoder.head.weight[2] *= 6
    model_weights.save_model(folder / "model.pt", model, list(symbols.langs), folder)
    (folder / "manifest.json").unlink()  # it has the digest of the weights before
    export_hf(ExportConfig(folder, tmp_path / "out"))
    compare(folder, tmp_path / "out", LINES, beam)


def test_tokens_of_hard_lines_are_ours_in_bytes_too(imported: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    export_hf(ExportConfig(imported, tmp_path / "out"))
    fast, processor = AutoTokenizer.from_pretrained(tmp_path / "out"), vocabulary.load_processor(imported)
    for line in [*ODD, *LINES]:
        found = fast(line)["input_ids"]
        assert found == [*encode_pieces(processor, line), 2], repr(line[:80])
        wanted = processor.decode([t - 1 for t in found[:-1]])
        assert fast.decode(found, skip_special_tokens=True) == wanted
    assert fast("a <extra_id_7>")["input_ids"][-2] == model_weights.load_seq2seq(imported)[1].sentinel(7)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "MT5ForConditionalGeneration" in card and "relative positions" in card and "[SOURCE]" not in card


def test_the_recipe_is_mt5_small() -> None:
    from transformers import MT5Config

    settings: Any = config.load(PretrainConfig, cli.recipe_path("mt5_small"), ["data=x", "out=y"]).model
    shape = Seq2SeqConfig(
        **{k: v for k, v in asdict(settings).items() if k in Seq2SeqConfig.__dataclass_fields__}
    )
    made, theirs = t5.to_hf_config(shape, Symbols(250_000, ("en",))), MT5Config()
    assert unsupported_parts.closest_family(shape, True) == ("T5", [])
    same = ("d_model", "d_kv", "d_ff", "num_layers", "num_decoder_layers", "num_heads", "layer_norm_epsilon")
    for name in (
        *same,
        "feed_forward_proj",
        "relative_attention_num_buckets",
        "relative_attention_max_distance",
    ):
        assert made[name] == getattr(theirs, name), name
    assert shape.untied_head and not shape.source_lang


@pytest.mark.slow
def test_logits_are_theirs_at_the_size_of_mt5_small() -> None:
    """With transformers' own starting weights and as many ids as T5 has."""
    from transformers import MT5Config, MT5ForConditionalGeneration

    torch.manual_seed(0)
    theirs = MT5ForConditionalGeneration(MT5Config(vocab_size=32_128)).eval()
    theirs.lm_head.weight = nn.Parameter(torch.randn_like(theirs.shared.weight) * 512**-0.5)
    settings: Any = config.load(PretrainConfig, cli.recipe_path("mt5_small"), ["data=x", "out=y"]).model
    shape = Seq2SeqConfig(
        **{k: v for k, v in asdict(settings).items() if k in Seq2SeqConfig.__dataclass_fields__}
    )
    order = t5.order_of_ids(31_997, 1, [32_099 - i for i in range(100)])
    symbols = Symbols.behind(32_001, len(order), ["en"], False)
    model = Seq2SeqModel(shape, len(order)).eval()
    weights = t5.to_our_weights(theirs.state_dict(), shape, order, Path("mt5"))
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert set(missing) == model_weights.tied_of(shape) and not unexpected
    draw = np.random.default_rng(0)
    for src, tgt in ((30, 20), (200, 150), (3, 2)):
        source, target = (draw.integers(4, symbols.mask, n) for n in (src, tgt))
        made = example(np.append(source, 2), np.append(target, 2), 0, 0, symbols) | {"id": np.array([0])}
        with torch.inference_mode():
            mine = model.decoder.head.logits(model(**pack_seq2seq([made])["net_input"]))
            found = theirs(
                torch.tensor([[*order[source].tolist(), 1]]),
                decoder_input_ids=torch.tensor([[0, *order[target].tolist()]]),
            ).logits[0]
        assert mine.abs().max() > 1
        assert largest(found[:, order], mine) < 1e-5


def test_a_version_of_transformers_that_ties_everything_is_understood(
    foreigns: Callable[[str], Path], imports: Callable[[str], Path], tmp_path: Path
) -> None:
    """It writes ties that are not there, and says by another name that states are not scaled."""
    shutil.copytree(foreigns("t5_1.1"), tmp_path / "copy")
    set_config(tie_word_embeddings=True, scale_decoder_outputs=False)(tmp_path / "copy")
    import_hf(ImportConfig(tmp_path / "copy", tmp_path / "in", ("en", "sw", "th")))
    one, two = (model_weights.load_seq2seq(x)[0].state_dict() for x in (imports("t5_1.1"), tmp_path / "in"))
    assert all(torch.equal(one[name], two[name]) for name in one)
