"""Encoder-decoders under transformers and stock fairseq: the same logits, the same outputs, and back again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.hub.differences import largest
from tests.hub.written import compare
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.data.packing import pack_seq2seq
from xling.data.symbols import Symbols
from xling.hub import bart_ids, mbart
from xling.hub.export import ExportConfig, run_fairseq, run_hf
from xling.hub.imports import ImportConfig
from xling.hub.imports import run_fairseq as import_fairseq
from xling.hub.imports import run_hf as import_hf
from xling.models.files import model_weights
from xling.models.generate.decode import generate_all
from xling.models.generate.settings import Search
from xling.models.network.seq2seq import Seq2SeqConfig, Seq2SeqModel
from xling.objectives.seq2seq import example
from xling.text import vocab as vocabulary
from xling.training.settings import PretrainConfig
from xling.training.train import run as pretrain
from xling.transfer.backend import EncoderBackend
from xling.transfer.encode import encode_pieces
from xling.transfer.translation.translate import TranslateConfig, Translator, translate_lines
from xling.transfer.words import word_vectors

LANGS = ["ar", "en", "th"]
SHAPE = {"layers": 2, "decoder_layers": 1, "dim": 32, "heads": 4, "ffn_dim": 48, "max_positions": 64}
LINES = (
    "The old woman sees a red boat near the river.",
    "المرأة العجوز ترى قاربا أحمر قرب النهر.",
    "หญิงชราเห็นเรือสีแดงใกล้แม่น้ำ",
    "two books",
    "e\u0301 👩‍👩‍👧‍👦 \u200f\u202bשלום\u202c",
)


def shake(model: nn.Module, seed: int = 5) -> None:
    """Weights that differ everywhere, so that a part at a wrong place shows."""
    torch.manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=0.3 if "cross" in name else 0.15)
        else:
            nn.init.normal_(weight, 0.8 if "norm" in name and name.endswith("weight") else 0.0, 0.2)


def publish(folder: Path, vocab: Path, langs: list[str] = LANGS, **more: Any) -> Path:
    """A published encoder-decoder of mBART's shape with random weights."""
    mask = 4 + len((vocab / "dict.txt").read_text(encoding="utf-8").splitlines())
    cfg = Seq2SeqConfig(**SHAPE | {"pre_norm": True, "plain_head": True} | more)
    model = Seq2SeqModel(cfg, Symbols(mask, tuple(langs)).size, len(langs) if cfg.lang_embeddings else 0)
    shake(model)
    if not cfg.unbiased_head and model.decoder.positions is not None:
        with (
            torch.no_grad()
        ):  # outputs that vary, and end before the limit, where transformers forces them to
            nn.init.normal_(model.decoder.positions.weight)
            model.decoder.head.bias[2] += 1
    with manifest.publish(folder, "test", {}, []) as made:
        vocabulary.copy_vocabulary(vocab, made.path)
        model_weights.save_model(made.path / "model.pt", model, langs, made.path)
        made.counts["langs"] = langs
    return folder


def ours(folder: Path, source: list[int], target: list[int], src: int, tgt: int) -> torch.Tensor:
    """Logits (T, V) of a target given a source, both pieces without specials."""
    model, symbols = model_weights.load_seq2seq(folder)
    made = example(np.array([*source, 2]), np.array([*target, 2]), src, tgt, symbols) | {"id": np.array([0])}
    with torch.inference_mode():
        states = model.eval()(**pack_seq2seq([made])["net_input"])
        return model.decoder.head.logits(states)


@pytest.fixture(scope="module")
def published(vocab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("mbart") / "model", vocab, scale_embeddings=True)


@pytest.fixture(scope="module")
def exported(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("hf") / "out"
    run_hf(ExportConfig(published, out))
    return out


@pytest.mark.parametrize(
    "more", [{"scale_embeddings": True}, {"unbiased_head": True}, {"decoder_layers": 0, "heads": 2}]
)
def test_transformers_gives_our_logits(vocab: Path, tmp_path: Path, more: dict[str, Any]) -> None:
    from transformers import AutoModelForSeq2SeqLM, MBartForConditionalGeneration

    folder = publish(tmp_path / "m", vocab, **more)
    run_hf(ExportConfig(folder, tmp_path / "out"))
    theirs, report = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert isinstance(theirs, MBartForConditionalGeneration)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    symbols, processor = model_weights.load_seq2seq(folder)[1], vocabulary.load_processor(folder)
    for number, line in enumerate(LINES):
        src, tgt = number % 3, (number + 1) % 3
        source, target = encode_pieces(processor, line)[:60], encode_pieces(processor, LINES[number - 1])[:60]
        with torch.inference_mode():
            found = theirs.eval()(
                torch.tensor([[*source, 2, symbols.lang(src)]]),
                decoder_input_ids=torch.tensor([[symbols.lang(tgt), *target]]),
            ).logits[0]
        mine = ours(folder, source, target, src, tgt)
        assert mine.abs().max() > 1
        assert largest(found, mine) < 1e-5


@pytest.mark.parametrize("beam", [1, 4])
def test_transformers_writes_what_we_write(published: Path, exported: Path, beam: int) -> None:
    compare(published, exported, LINES, beam, tag="[en]")


def test_generation_says_what_may_be_written(exported: Path, published: Path) -> None:
    said = json.loads((exported / "generation_config.json").read_text())
    symbols = model_weights.load_seq2seq(published)[1]
    barred = {0, 1, 3, *range(symbols.mask, symbols.size)}
    assert set(said["suppress_tokens"]) == barred
    assert said["lang_to_id"] == {f"[{lang}]": symbols.lang(i) for i, lang in enumerate(LANGS)}
    assert said["decoder_start_token_id"] == symbols.lang(1)  # English
    card = (exported / "README.md").read_text()
    assert "MBartForConditionalGeneration" in card and "decoder_start_token_id" in card


def test_tokens_of_hard_lines_are_ours(exported: Path, published: Path) -> None:
    from transformers import AutoTokenizer

    from tests.hub.test_export import ODD

    fast, processor = AutoTokenizer.from_pretrained(exported), vocabulary.load_processor(published)
    symbols = model_weights.load_seq2seq(published)[1]
    for line in [*ODD, *LINES[:4]]:
        wanted = [*encode_pieces(processor, line), 2, symbols.lang(2)]
        assert fast(line, "[th]")["input_ids"] == wanted, repr(line[:100])
    assert fast(LINES[0])["input_ids"][-1] == symbols.lang(1)
    cut = fast("two books " * 99, "[ar]", truncation="only_first", max_length=20)["input_ids"]
    assert len(cut) == 20 and cut[-2:] == [2, symbols.lang(0)]


def test_out_and_in_again_is_the_same(exported: Path, published: Path, tmp_path: Path) -> None:
    import_hf(ImportConfig(exported, tmp_path / "in"))
    first, second = (model_weights.load_seq2seq(x) for x in (published, tmp_path / "in"))
    assert first[1] == second[1]
    one, two = first[0].state_dict(), second[0].state_dict()
    kept = [name for name in one if not name.startswith("lm_head.")]  # mBART has no place for it
    assert len(kept) > 50 and all(torch.equal(one[name], two[name]) for name in kept)


def save_cc25(vocab: Path, folder: Path) -> None:
    """Write a small MBartForConditionalGeneration with mbart.cc25's layout of ids, as save_pretrained writes it."""
    from transformers import MBartConfig, MBartForConditionalGeneration

    num_pieces = len((vocab / "dict.txt").read_text().splitlines())
    model = MBartForConditionalGeneration(
        MBartConfig(
            vocab_size=num_pieces + 4 + 25 + 1, d_model=32, encoder_layers=2, decoder_layers=2,
            encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
            max_position_embeddings=64, scale_embedding=True,
        )
    )  # fmt: skip
    shake(model)
    model.save_pretrained(folder)
    shutil.copy(vocab / "spm.model", folder / "sentencepiece.bpe.model")


@pytest.fixture(scope="module")
def foreign(vocab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of `save_cc25`."""
    folder = tmp_path_factory.mktemp("foreign") / "mbart"
    save_cc25(vocab, folder)
    return folder


def test_mbart_gives_the_same_logits_and_outputs_here(foreign: Path, vocab: Path, tmp_path: Path) -> None:
    from transformers import MBartForConditionalGeneration

    import_hf(ImportConfig(foreign, tmp_path / "in"))
    theirs = MBartForConditionalGeneration.from_pretrained(foreign).eval()
    model, symbols = model_weights.load_seq2seq(tmp_path / "in")
    assert (
        len(symbols.langs) == 25 and symbols.sentinels == 0 and symbols.langs[:4] == ("ar", "cs", "de", "en")
    )
    first = len((vocab / "dict.txt").read_text().splitlines()) + 4
    assert symbols.mask == first
    ro, en = symbols.langs.index("ro"), symbols.langs.index("en")
    source, target = [5, 77, 9, 30, 41], [8, 60, 4, 121]
    order, _ = mbart.order_of_ids(
        [*"spuk", *"p" * (first - 4), *mbart.MBART25_LANGS, "<mask>"], first - 4, Path("test")
    )
    with torch.inference_mode():
        found = theirs(
            torch.tensor([[*source, 2, first + en]]), decoder_input_ids=torch.tensor([[first + ro, *target]])
        ).logits[0]
        written = theirs.generate(
            torch.tensor([[*source, 2, first + en]]), decoder_start_token_id=first + ro, num_beams=3, max_new_tokens=20,
            early_stopping=True, min_new_tokens=1, suppress_tokens=[0, 1, 3, *range(first, first + 26)],
        )  # fmt: skip
    mine = ours(tmp_path / "in", source, target, en, ro)
    assert mine.abs().max() > 1
    assert largest(found[:, order], mine) < 1e-5
    ((best, *_),) = generate_all(
        model, [np.array(source)], [en], [ro], symbols, Search(beam=3, max_len_a=0, max_len_b=19)
    )
    assert [t for t in written[0].tolist()[1:] if t not in (1, 2)] == best.tokens.tolist()


def check_vectors(folder: Path, published: Path, lang: str, theirs: list[list[int]], inner: slice) -> None:
    """Assert that sentence and word vectors are the means of the states that transformers has for its own sources.

    Args:
        folder, published: the same model as transformers' and as ours.
        theirs: the ids of `LINES` with the specials that their tokenizer adds.
        inner: where the pieces stand among the ids.
    """
    from transformers import AutoModelForSeq2SeqLM

    encoder = AutoModelForSeq2SeqLM.from_pretrained(folder).eval().get_encoder()
    with torch.inference_mode():
        states = [encoder(torch.tensor([ids])).last_hidden_state[0][inner] for ids in theirs]
    backend = EncoderBackend(published, "pretrained")
    wanted = np.stack([each.mean(0).numpy() for each in states])
    assert largest(backend.embed(LINES, lang, -1, "mean"), wanted) < 1e-5 < np.abs(wanted).max()
    assert largest(backend.embed(LINES, lang, -1, "max"), np.stack([each.amax(0) for each in states])) < 1e-5
    (words,) = word_vectors(published, [[LINES[0]]], lang)
    assert largest(words[0], wanted[0]) < 1e-5
    assert backend.vector_name(-1, "mean") == "mean of sources" and backend.vector_name(-1, "cls") == "cls"


def test_vectors_are_those_of_sources(
    foreign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not of a text with ``<s>`` before it, which a decoder's encoder has never read."""
    import_hf(ImportConfig(foreign, tmp_path / "in"))
    symbols = model_weights.load_seq2seq(tmp_path / "in")[1]
    processor = vocabulary.load_processor(tmp_path / "in")
    pieces = [encode_pieces(processor, line) for line in LINES]
    first = symbols.mask + mbart.MBART25_LANGS.index("ro_RO")
    theirs = [[*line, 2, first] for line in pieces]
    check_vectors(foreign, tmp_path / "in", "ron_Latn", theirs, slice(0, -2))
    capsys.readouterr()
    EncoderBackend(tmp_path / "in", "pretrained").embed(["two"], "yo", -1, "mean")
    assert "has no token for yo: its texts are read without one" in capsys.readouterr().err


def test_translate_and_pretraining_go_on_from_it(foreign: Path, shards: Path, tmp_path: Path) -> None:
    import_hf(ImportConfig(foreign, tmp_path / "in"))
    lines: list[str] = []
    cfg = TranslateConfig(str(tmp_path / "in"), "en", "ro")
    assert (
        translate_lines(Translator(tmp_path / "in", Search(beam=2)), ["two books", ""], cfg, lines.append)
        == 2
    )
    assert len(lines) == 2 and lines[1] == "\n"
    shape = manifest.read(tmp_path / "in").counts["shape"]
    names = ("layers", "dim", "heads", "ffn_dim", "max_positions", "decoder_layers", "pre_norm", "plain_head",
             "unbiased_head", "scale_embeddings")  # fmt: skip
    words = [f"model.{name}={json.dumps(shape[name])}" for name in names]
    words += [
        f"data={shards}",
        f"out={tmp_path / 'out'}",
        f"init={tmp_path / 'in'}",
        "objectives.mbart.weight=1",
    ]
    words += ["objectives.mbart.tokens_per_sample=48", "train.updates=2", "train.batch_tokens=256"]
    words += ["model.precision=fp32", "train.warmup=1", "train.lr=1e-9"]
    assert pretrain(config.load(PretrainConfig, overrides=words)).counts["updates"] == 2  # type: ignore[union-attr]
    old, new = (model_weights.load_seq2seq(tmp_path / x) for x in ("in", "out"))
    assert new[1].langs == ("ar", "en", "th") and new[1].sentinels == 100
    rows = [m.encoder.tokens.weight[s.lang(s.langs.index("en"))] for m, s in (old, new)]
    assert torch.allclose(*rows, atol=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")  # hydra's, of old ways in which fairseq reads a model
@pytest.mark.parametrize("scaled", [False, True])
def test_fairseq_gives_our_logits(vocab: Path, tmp_path: Path, scaled: bool) -> None:
    from fairseq.models.bart import BARTModel

    folder = publish(tmp_path / "m", vocab, unbiased_head=True, scale_embeddings=scaled)
    out = tmp_path / "out"
    run_fairseq(ExportConfig(folder, out))
    hub = BARTModel.from_pretrained(str(out), "model.pt", str(out), bpe=None)
    known, symbols = hub.task.source_dictionary, model_weights.load_seq2seq(folder)[1]
    assert known.index("[th]") == symbols.mask + 2 and known.index("<mask>") == len(known) - 1
    source, target = [5, 77, 9, 30, 41], [8, 60, 4, 121]
    with torch.inference_mode():
        found, _ = hub.eval().model(
            torch.tensor([[*source, 2, known.index("[en]")]]),
            None,
            torch.tensor([[known.index("[th]"), *target]]),
        )
    mine = ours(folder, source, target, 1, 2)
    langs = [known.index(f"[{lang}]") for lang in LANGS]
    order = [*range(symbols.mask), known.index("<mask>"), *langs]
    assert largest(found[0][:, order], mine[:, : len(order)]) < 1e-5
    import_fairseq(ImportConfig(out, tmp_path / "in"))
    again = ours(tmp_path / "in", source, target, 1, 2)
    assert torch.equal(again, mine[:, : len(order)])


def test_a_bias_does_not_fit_into_fairseq(published: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="bias at its output"):
        run_fairseq(ExportConfig(published, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"plain_head": False}, "model.plain_head=false"),
        ({"lang_embeddings": True}, "model.lang_embeddings"),
        ({"norm_eps": 1e-12}, "model.norm_eps=1e-12"),
    ],
)
def test_what_mbart_cannot_express_is_named(
    vocab: Path, tmp_path: Path, more: dict[str, Any], said: str
) -> None:
    folder = publish(tmp_path / "m", vocab, **more)
    for run in (run_hf, run_fairseq):
        with pytest.raises(UserError, match=said):
            run(ExportConfig(folder, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_norms_after_the_blocks_do_not_fit_into_fairseq(vocab: Path, tmp_path: Path) -> None:
    folder = publish(tmp_path / "m", vocab, pre_norm=False, unbiased_head=True)
    with pytest.raises(UserError, match=r"model.pre_norm=false"):
        run_fairseq(ExportConfig(folder, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def set_config(name: str = "config.json", **values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        found = json.loads(path.read_text()) if path.is_file() else {}
        path.write_text(json.dumps(found | values))

    return change


def change_weight(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        state = load_file(folder / "model.safetensors")
        table = state["model.shared.weight"]
        save_file(state | {name: table + 1} if name else {k: v for k, v in state.items() if "fc1" not in k},
                  folder / "model.safetensors")  # fmt: skip

    return change


def truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def other_pieces(folder: Path) -> None:
    tokens = [["<s>", 0], ["<pad>", 0], ["</s>", 0], ["<unk>", 0], *([f"x{i}", 0] for i in range(127))]
    tokens += [[code, 0] for code in [*mbart.MBART25_LANGS, "<mask>"]]
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": tokens}}))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (truncate, "damaged"),
        (other_pieces, "differ: piece 0"),
        (set_config(activation_function="relu"), "activation_function='relu'"),
        (set_config(decoder_attention_heads=2), "encoder_attention_heads=4, decoder_attention_heads=2"),
        (set_config(decoder_layers=3), r"no weight decoder\.layers|no decoder.layers.2"),
        (
            set_config(d_model=64, encoder_attention_heads=2, decoder_attention_heads=2),
            "by its configuration|no tensor of its weights",
        ),
        (set_config(decoder_start_token_id=2), "25 tokens after its pieces, for 52 languages"),
        (set_config("tokenizer_config.json", tokenizer_class="MBart50Tokenizer"), "for 52 languages"),
        (change_weight("lm_head.weight"), "different embeddings"),
        (change_weight(""), r"no weight encoder\.layers\.0\.fc1"),
        (lambda folder: (folder / "sentencepiece.bpe.model").unlink(), "no SentencePiece model"),
    ],
)
def test_what_does_not_belong_is_refused(
    copied: Path, tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    harm(copied)
    with pytest.raises(UserError, match=said):
        import_hf(ImportConfig(copied, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_tokenizer_says_where_the_language_stands(copied: Path, tmp_path: Path) -> None:
    """mBART-25 keeps its order, whatever its decoder starts with: behind the source, and first in the decoder."""
    set_config(decoder_start_token_id=2)(copied)
    set_config("tokenizer_config.json", tokenizer_class="MBartTokenizerFast")(copied)
    import_hf(ImportConfig(copied, tmp_path / "out"))
    symbols = model_weights.load_seq2seq(tmp_path / "out")[1]
    assert not symbols.lang_first and len(symbols.langs) == 25
    (copied / "tokenizer_config.json").unlink()
    names = [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}, {"SpecialToken": {"id": "en_XX"}}]
    for template, expected in ((names, False), (names[2:] + names[:2], True), (names[:2], True)):
        (copied / "tokenizer.json").write_text(json.dumps({"post_processor": {"single": template}}))
        assert bart_ids.reads_lang_first({"decoder_start_token_id": 2}, copied) is expected


def test_languages_are_those_of_the_tokens(copied: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="25 tokens after its pieces, for 2 languages"):
        import_hf(ImportConfig(copied, tmp_path / "out", ("en", "ro")))
    given = tuple(code.split("_")[0] for code in reversed(mbart.MBART25_LANGS))
    import_hf(ImportConfig(copied, tmp_path / "out", given))
    assert model_weights.load_seq2seq(tmp_path / "out")[1].langs == given


def test_code_in_a_checkpoint_of_fairseq_is_refused_and_not_run(vocab: Path, tmp_path: Path) -> None:
    from tests.hub.test_import import Planted

    folder = publish(tmp_path / "m", vocab, unbiased_head=True)
    run_fairseq(ExportConfig(folder, tmp_path / "out"))
    from xling import compat

    compat.install()
    state = torch.load(tmp_path / "out" / "model.pt", weights_only=True)
    for wrong, said in (
        (state | {"more": Planted(tmp_path / "ran")}, "holds more than tensors"),
        ({"model": {}}, "not a RoBERTa or mBART"),
        (state | {"args": None}, "not a RoBERTa or mBART"),
    ):
        torch.save(wrong, tmp_path / "out" / "model.pt")
        with pytest.raises(UserError, match=said):
            import_fairseq(ImportConfig(tmp_path / "out", tmp_path / "in"))
    del state["args"].langs
    torch.save(state, tmp_path / "out" / "model.pt")
    with pytest.raises(UserError, match="does not name its languages"):
        import_fairseq(ImportConfig(tmp_path / "out", tmp_path / "in"))
    assert not (tmp_path / "ran").exists() and not (tmp_path / "in").exists()
