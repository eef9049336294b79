"""T5 and mT5 in and out: the same logits, the same outputs, the same ids, and every command goes on from them."""

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
from sentencepiece import sentencepiece_model_pb2 as proto
from torch import nn

from corpora import binarize
from corpora import vocab as vocabulary
from tests.hub.conftest import LABELS, ROWS
from tests.hub.test_export import ODD
from tests.hub.test_import import Planted, as_pickle, set_config, truncate
from tests.hub.test_mbart import LINES, ours, publish, shake
from xling import cli
from xling.core import config, manifest
from xling.core.errors import UserError
from xling.data.packing import pack_seq2seq
from xling.data.symbols import Symbols
from xling.hub import t5
from xling.hub.config import TrimConfig
from xling.hub.export import ExportConfig, run_fairseq
from xling.hub.export import run_hf as export_hf
from xling.hub.imports import ImportConfig
from xling.hub.imports import run_hf as import_hf
from xling.hub.trim import run as trim
from xling.models import checkpoint
from xling.models.generate import Search, generate_all
from xling.models.seq2seq import Seq2SeqConfig, Seq2SeqModel
from xling.objectives.seq2seq import example
from xling.objectives.span_corruption import split_spans
from xling.settings import PretrainConfig
from xling.train import run as pretrain
from xling.transfer import tune
from xling.transfer.backend import EncoderBackend
from xling.transfer.encode import pieces
from xling.transfer.translate import TranslateConfig, Translator, translate_lines

KINDS = ("mt5", "t5", "t5_1.1")
NUM_PIECES = {"mt5": 390, "t5": 130, "t5_1.1": 130}  # 256 of mT5's are bytes
SHAPE = {
    "norm": "rms", "embedding_norm": False, "biases": False, "positions": "relative", "ffn": "gated_gelu",
    "head_dim": 10, "unbiased_head": True, "untied_head": True, "source_lang": False, "norm_eps": 1e-6,
}  # fmt: skip


@pytest.fixture(scope="module")
def spiece(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The SentencePiece model of T5 (neither bytes nor sentinels in it) or mT5 (both) over the tiny corpus."""
    folder = tmp_path_factory.mktemp("spiece")

    def made(kind: str) -> Path:
        path, is_mt5 = folder / f"{kind}.model", kind == "mt5"
        if not path.is_file():
            lines = [
                line
                for name in ("en", "ar", "th")
                for line in (corpus / f"{name}.txt").read_text("utf-8").splitlines()
            ]
            spm.SentencePieceTrainer.train(
                sentence_iterator=iter(lines), model_prefix=str(path.with_suffix("")), vocab_size=NUM_PIECES[kind],
                pad_id=0, eos_id=1, unk_id=2, bos_id=-1, byte_fallback=is_mt5, minloglevel=2, num_threads=1,
            )  # fmt: skip
            if is_mt5:  # as in seqio's SentencePieceVocabulary
                model = proto.ModelProto.FromString(path.read_bytes())
                for number in reversed(range(100)):
                    model.pieces.add(piece=f"▁<extra_id_{number}>", score=0.0, type=4)
                path.write_bytes(model.SerializeToString())
        return path

    return made


@pytest.fixture(scope="module")
def foreigns(
    spiece: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Small models with random weights, as save_pretrained writes them, by kind."""
    import transformers

    root = tmp_path_factory.mktemp("foreign")

    def made(kind: str) -> Path:
        folder = root / kind
        if folder.is_dir():
            return folder
        size = NUM_PIECES[kind] + 100
        shape = {
            "vocab_size": -(-size // 128) * 128, "d_model": 32, "d_kv": 10, "d_ff": 48, "num_layers": 2,
            "num_decoder_layers": 3, "num_heads": 4, "decoder_start_token_id": 0,
        }  # fmt: skip
        name = "MT5" if kind == "mt5" else "T5"
        if kind == "t5_1.1":
            shape |= {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
        model = getattr(transformers, f"{name}ForConditionalGeneration")(
            getattr(transformers, f"{name}Config")(**shape)
        )
        if kind != "t5":
            model.lm_head.weight = nn.Parameter(torch.empty_like(model.shared.weight))
        shake(model)
        if kind == "t5":  # whose states are divided by the root of the width before the output
            with torch.no_grad():
                model.decoder.final_layer_norm.weight.mul_(5)
        model.save_pretrained(folder)
        if kind == "t5_1.1":  # as the released ones say it
            set_config(tie_word_embeddings=False)(folder)
        shutil.copy(spiece(kind), folder / "spiece.model")
        return folder

    return made


@pytest.fixture(scope="module")
def imports(
    foreigns: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """The foreign models as ours, with tokens for en, sw and th."""
    root = tmp_path_factory.mktemp("imported")

    def made(kind: str) -> Path:
        if not (root / kind).is_dir():
            import_hf(ImportConfig(foreigns(kind), root / kind, ("en", "sw", "th")))
        return root / kind

    return made


@pytest.fixture(scope="module")
def foreign(foreigns: Callable[[str], Path]) -> Path:
    return foreigns("mt5")


@pytest.fixture(scope="module")
def imported(imports: Callable[[str], Path]) -> Path:
    return imports("mt5")


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
    model, symbols = checkpoint.load_seq2seq(folder)
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
            assert (wanted[:, ids] - part).abs().max() < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_their_sentencepiece(
    spiece: Callable[[str], Path], imports: Callable[[str], Path], kind: str
) -> None:
    folder, theirs = imports(kind), spm.SentencePieceProcessor(model_file=str(spiece(kind)))
    processor, ids = vocabulary.load(folder), their_ids(kind, folder)
    for line in [*ODD, *LINES]:
        found = pieces(processor, line)
        assert [ids[t] for t in found] == theirs.encode(line), repr(line[:80])
        if 3 not in found:
            assert processor.decode([t - 1 for t in found]) == theirs.decode(theirs.encode(line))
    assert (3 in pieces(processor, "ж")) == (kind != "mt5")


def test_sentinels_are_those_of_span_corruption(imported: Path) -> None:
    _, symbols = checkpoint.load_seq2seq(imported)
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
    assert (wanted.logits[..., ids] - found.logits).abs().max() < 1e-5
    import_hf(ImportConfig(tmp_path / "out", tmp_path / "again"))
    one, two = (checkpoint.load_seq2seq(x) for x in (imports(kind), tmp_path / "again"))
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
    symbols, processor = checkpoint.load_seq2seq(folder)[1], vocabulary.load(folder)
    fast = AutoTokenizer.from_pretrained(tmp_path / "out")
    for number, line in enumerate(LINES):
        src, tgt = number % 3, (number + 1) % 3
        source, target = pieces(processor, line)[:60], pieces(processor, LINES[number - 1])[:60]
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
        assert (found - mine).abs().max() < 1e-5


@pytest.mark.parametrize("beam", [1, 4])
def test_transformers_writes_what_we_write(vocab: Path, tmp_path: Path, beam: int) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    folder = publish(tmp_path / "m", vocab, **SHAPE)
    model, symbols = checkpoint.load_seq2seq(folder)
    with torch.no_grad():  # outputs that end before the limit, where transformers forces them to
        model.decoder.head.weight[2] *= 6
    checkpoint.save_model(folder / "model.pt", model, list(symbols.langs), folder)
    export_hf(ExportConfig(folder, tmp_path / "out"))
    theirs, fast = (c.from_pretrained(tmp_path / "out") for c in (AutoModelForSeq2SeqLM, AutoTokenizer))
    processor = vocabulary.load(folder)
    sources = [np.array(pieces(processor, line)) for line in LINES]
    compared = []
    for lang, code in enumerate(symbols.langs):
        search = Search(beam=beam, max_len_a=0, max_len_b=50)
        mine = generate_all(model, sources, [1] * len(LINES), [lang] * len(LINES), symbols, search)
        given = fast(list(LINES), padding=True, return_tensors="pt")
        wanted = theirs.generation_config.lang_to_id[f"[{code}]"]
        settings = {"num_beams": beam, "max_new_tokens": 51, "decoder_start_token_id": wanted}
        with torch.inference_mode():
            found = theirs.eval().generate(**given, **settings)
        for row, hypotheses in zip(found.tolist(), mine, strict=True):
            if beam == 1 or all(len(h.tokens) < 50 for h in hypotheses):
                compared.append(tuple(token for token in row[1:] if token not in (1, 2)))
                assert compared[-1] == tuple(hypotheses[0].tokens.tolist())
    assert len(compared) > 5 and len(set(compared)) > 3, compared


def test_tokens_of_hard_lines_are_ours_in_bytes_too(imported: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    export_hf(ExportConfig(imported, tmp_path / "out"))
    fast, processor = AutoTokenizer.from_pretrained(tmp_path / "out"), vocabulary.load(imported)
    for line in [*ODD, *LINES]:
        found = fast(line)["input_ids"]
        assert found == [*pieces(processor, line), 2], repr(line[:80])
        wanted = processor.decode([t - 1 for t in found[:-1]])
        assert fast.decode(found, skip_special_tokens=True) == wanted
    assert fast("a <extra_id_7>")["input_ids"][-2] == checkpoint.load_seq2seq(imported)[1].sentinel(7)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "MT5ForConditionalGeneration" in card and "relative positions" in card and "[SOURCE]" not in card


def test_every_recipe_goes_on_from_it(
    imported: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Span corruption, translation by `finetune mt`, and `translate`, in the shape that the checkpoint has."""
    data, paths = tmp_path / "shards", {lang: (str(corpus / f"{lang}.txt"),) for lang in ("en", "th")}
    pairs = {"en-th": (str(corpus / "th.txt"), str(corpus / "th.txt"))}
    binarize.run(binarize.BinarizeConfig(vocab=str(imported), out=str(data), corpora=paths, pairs=pairs))
    shape = manifest.read(imported).counts["shape"]
    left = {"dropout", "precision", "task_adapter", "lang_adapter", "invertible"}
    words = [f"model.{k}={str(v).lower()}" for k, v in shape.items() if k not in left]
    words += [
        f"data={data}", f"init={imported}", "langs=en,sw,th", "model.precision=fp32", "model.dropout=0",
        "train.updates=2", "train.batch_tokens=512", "train.warmup=1", "train.lr=1e-9",
    ]  # fmt: skip
    spans = [*words, f"out={tmp_path / 'out'}", "objectives.span_corruption.tokens_per_sample=48"]
    assert pretrain(config.load(PretrainConfig, overrides=spans)).counts["updates"] == 2  # type: ignore[union-attr]
    old, new = (checkpoint.load_seq2seq(tmp_path / x) for x in (imported, "out"))
    assert new[1] == old[1]
    for name, weight in old[0].state_dict().items():
        torch.testing.assert_close(new[0].state_dict()[name], weight, rtol=1e-4, atol=1e-6)
    other = [w for w in spans if not w.startswith("model.positions")]
    with pytest.raises(UserError, match=r"has model.positions=relative, not learnt"):
        pretrain(config.load(PretrainConfig, overrides=[*other, f"out={tmp_path / 'other'}"]))
    mt = [
        "finetune", "mt", f"data={data}", f"checkpoint={imported}", f"out={tmp_path / 'mt'}", "train.updates=1",
        "train.batch_tokens=512", "tokens_per_sample=48", "train.warmup=1", "directions=en-th",
    ]  # fmt: skip
    assert cli.main(mt) == 0, capsys.readouterr().err
    tuned, symbols = checkpoint.load_seq2seq(tmp_path / "mt")
    assert symbols == old[1] and tuned.cfg.head_dim == 10
    lines: list[str] = []
    translator = Translator(tmp_path / "mt", Search(beam=2, max_len_a=0, max_len_b=5))
    cfg = TranslateConfig(str(tmp_path / "mt"), "en", "th")
    assert translate_lines(translator, ["two books", ""], cfg, lines.append) == 2
    assert len(lines) == 2 and lines[1] == "\n"


@pytest.mark.parametrize("kind", ["classify", "tag"])
def test_its_encoder_is_evaluated_and_fine_tuned(imported: Path, tmp_path: Path, kind: str) -> None:
    """As any encoder here; XLM-R's classes have no place for it."""
    cfg = tune.TuneConfig(epochs=1, lr=1e-3, batch_rows=2, max_length=64, precision="fp32")
    tuned = tune.fit(imported, kind, LABELS, ROWS[kind], cfg)[-1]  # type: ignore[arg-type]
    with manifest.publish(tmp_path / "task", "finetune", cfg, [imported]) as made:
        tune.save(tuned, made.path, imported, ["en"])
    assert tune.load(tmp_path / "task").predict(ROWS[kind]) == tuned.predict(ROWS[kind])
    with pytest.raises(UserError, match=r"model.norm=rms .* which XLM-R's classes cannot express"):
        export_hf(ExportConfig(tmp_path / "task", tmp_path / "out"))
    whole, small = (
        EncoderBackend(imported, "mt5", int8=int8).embed(LINES, "en", -1, "mean") for int8 in (False, True)
    )
    assert whole.shape == (len(LINES), 32) and np.linalg.norm(small - whole) / np.linalg.norm(whole) < 0.1


def test_pieces_can_be_added_and_left_out(
    imported: Path, foreign: Path, vocab: Path, corpus: Path, tmp_path: Path
) -> None:
    import_hf(ImportConfig(foreign, tmp_path / "more", ("en", "sw", "th"), extend_vocab=vocab, init="fvt"))
    old, new = (checkpoint.load_seq2seq(x) for x in (imported, tmp_path / "more"))
    added = manifest.read(tmp_path / "more").counts["pieces_added"]
    assert added and new[1].mask == old[1].mask + added and new[1].sentinels == 100
    for side in (lambda m: m.encoder.tokens, lambda m: m.decoder.head):
        before, after = side(old[0]).weight, side(new[0]).weight
        assert torch.equal(after[: old[1].mask], before[: old[1].mask])
        assert torch.equal(after[new[1].mask :], before[old[1].mask :])
    trim(TrimConfig(imported, tmp_path / "less", {"en": (str(corpus / "en.txt"),)}))
    model, symbols = checkpoint.load_seq2seq(tmp_path / "less")
    processor = vocabulary.load(tmp_path / "less")
    assert (
        symbols.mask < old[1].mask and sum(map(processor.is_byte, range(processor.get_piece_size()))) == 256
    )
    both = [pieces(vocabulary.load(x), LINES[0]) for x in (imported, tmp_path / "less")]
    made = [ours(x, line, [], 0, 0)[0] for x, line in zip((imported, tmp_path / "less"), both, strict=True)]
    assert torch.equal(made[0][both[0]], made[1][both[1]]) and len(model.decoder.head.weight) == symbols.size


def test_the_recipe_is_mt5_small() -> None:
    from transformers import MT5Config

    settings: Any = config.load(PretrainConfig, cli.recipe_path("mt5_small"), ["data=x", "out=y"]).model
    shape = Seq2SeqConfig(
        **{k: v for k, v in asdict(settings).items() if k in Seq2SeqConfig.__dataclass_fields__}
    )
    made, theirs = t5.hf_config(shape, Symbols(250_000, ("en",))), MT5Config()
    assert not t5.oddities(shape, {})
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
    order = t5.our_order(31_997, 1, [32_099 - i for i in range(100)])
    symbols = Symbols.behind(32_001, len(order), ["en"], False)
    model = Seq2SeqModel(shape, len(order)).eval()
    weights = t5.our_weights(theirs.state_dict(), shape, order, Path("mt5"))
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert set(missing) == checkpoint.tied_of(shape) and not unexpected
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
        assert (found[:, order] - mine).abs().max() < 1e-5


def test_a_version_of_transformers_that_ties_everything_is_understood(
    foreigns: Callable[[str], Path], imports: Callable[[str], Path], tmp_path: Path
) -> None:
    """It writes ties that are not there, and says by another name that states are not scaled."""
    shutil.copytree(foreigns("t5_1.1"), tmp_path / "copy")
    set_config(tie_word_embeddings=True, scale_decoder_outputs=False)(tmp_path / "copy")
    import_hf(ImportConfig(tmp_path / "copy", tmp_path / "in", ("en", "sw", "th")))
    one, two = (checkpoint.load_seq2seq(x)[0].state_dict() for x in (imports("t5_1.1"), tmp_path / "in"))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"biases": True}, "model.biases=true, which T5's"),
        ({"norm": "layer"}, "model.norm=layer"),
        ({"unbiased_head": False}, "a bias at its output"),
        ({"embedding_norm": True}, "model.embedding_norm=true"),
        ({"scale_embeddings": True}, "model.scale_embeddings=true"),
        ({"positions": "learnt"}, "model.norm=rms and .*, which mBART's"),
    ],
)
def test_what_no_class_can_express_is_named(
    vocab: Path, tmp_path: Path, more: dict[str, Any], said: str
) -> None:
    folder = publish(tmp_path / "m", vocab, **SHAPE | more)
    with pytest.raises(UserError, match=said):
        export_hf(ExportConfig(folder, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_fairseq_has_no_class_for_it(imported: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model.norm=rms .* which fairseq's classes cannot express"):
        run_fairseq(ExportConfig(imported, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def change_weights(
    change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]],
) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors")

    return changed


def change_pieces(change: Callable[[Any], None]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        model = proto.ModelProto.FromString((folder / "spiece.model").read_bytes())
        change(model.pieces)
        (folder / "spiece.model").write_bytes(model.SerializeToString())

    return changed


def drop(pieces_: Any, count: int = 60) -> None:
    del pieces_[260 : 260 + count]


def lose_a_sentinel(pieces_: Any) -> None:
    del pieces_[-3]


def other_tokens(folder: Path) -> None:
    names = ["<pad>", "</s>", "<unk>", *(f"x{i}" for i in range(487))]
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": [[name, 0] for name in names]}}))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (truncate, "damaged"),
        (change_pieces(lambda p: p.add(piece="<extra_id_200>", score=0, type=4)), "sentinels among its pieces"),
        (change_pieces(lose_a_sentinel), "99 sentinels among its pieces"),
        (change_pieces(lambda p: drop(p, 120)), "512 embeddings, and its tokenizer 370 ids"),
        (change_pieces(lambda p: drop(p, 3) or p[0].__setattr__("piece", "<unk>")), "begins with <unk>"),
        (other_tokens, "differ: piece 0"),
        (lambda folder: (folder / "spiece.model").write_bytes(b"no model"), "no SentencePiece model"),
        (lambda folder: (folder / "spiece.model").unlink(), "has no SentencePiece model"),
        (set_config(feed_forward_proj="gated-silu"), "feed_forward_proj='gated-silu'"),
        (set_config(relative_attention_num_buckets=64), "relative_attention_num_buckets=64"),
        (set_config(is_encoder_decoder=False), "is_encoder_decoder=False"),
        (set_config(num_layers=3), "has no encoder.layers.2"),
        (set_config(num_decoder_layers=2), r"decoder\.layers\.2.* is|by its configuration"),
        (set_config(feed_forward_proj="relu"), r"no weight encoder\.block\.0\.layer\.1\.DenseReluDense\.wi\.weight"),
        (set_config(d_kv=8), "by its configuration"),
        (set_config(model_type="umt5"), "'umt5', and umT5 has biases of relative positions in every layer"),
        (change_weights(lambda s: {k: v for k, v in s.items() if not k.startswith("decoder.")}),
         r"no weight decoder\.block\.0"),
        (change_weights(lambda s: {k: v for k, v in s.items() if "relative" not in k}), "relative_attention_bias"),
        (change_weights(lambda s: {f"transformer.{k}": v for k, v in s.items()}), "has no embeddings"),
        (change_weights(lambda s: s | {"encoder.embed_tokens.weight": s["shared.weight"] + 1}), "of its own"),
        (change_weights(lambda s: s | {"lm_head.weight": s["lm_head.weight"][:-9].clone()}), "output of 503 ids"),
    ],
)  # fmt: skip
def test_what_does_not_belong_is_refused(
    copied: Path, tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    harm(copied)
    with pytest.raises(UserError, match=said):
        import_hf(ImportConfig(copied, tmp_path / "out", ("en",)))
    assert not (tmp_path / "out").exists()


def test_languages_must_be_named(foreign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["import", "hf", str(foreign), str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "has no tokens of languages, and none is named" in said and "Traceback" not in said
    assert cli.main(["import", "hf", str(foreign), str(tmp_path / "out"), "langs=en,sw"]) == 0
    assert checkpoint.load_seq2seq(tmp_path / "out")[1].langs == ("en", "sw")


def test_code_in_a_pickle_is_refused_and_not_run(copied: Path, tmp_path: Path) -> None:
    as_pickle(copied, Planted(tmp_path / "ran"))
    for flag, said in ((False, "allow_pickle=true"), (True, "holds more than tensors")):
        with pytest.raises(UserError, match=said):
            import_hf(ImportConfig(copied, tmp_path / "out", ("en",), allow_pickle=flag))
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out").exists()
