"""BERT and mBERT: the same states and logits, the same ids, and every command goes on with the vocabulary."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from tests.hub.conftest import LABELS, ROWS
from tests.hub.differences import largest
from tests.hub.test_export import ODD
from tests.hub.test_import import Planted, as_pickle, set_config, truncate
from tests.hub.test_mbart import shake
from tests.tuning import fine_tune
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.corpora import binarize
from xling.data.packing import pack
from xling.hub.cached import cached_checkpoint
from xling.hub.export import ExportConfig, run_fairseq
from xling.hub.export import run_hf as export_hf
from xling.hub.imports import ImportConfig, run_hf
from xling.hub.quantize import run as quantize
from xling.hub.settings import QuantizeConfig
from xling.hub.trim import TrimConfig
from xling.hub.trim import run as trim
from xling.models.files import model_weights
from xling.objectives.base import load_dictionary
from xling.objectives.mmlm import word_starts_of
from xling.text import vocab as vocabulary
from xling.training.settings import PretrainConfig
from xling.training.train import run as pretrain
from xling.transfer import tune
from xling.transfer.backend import EncoderBackend
from xling.transfer.encode import encode_pieces
from xling.transfer.settings import TuneConfig
from xling.transfer.task import TASKS

WORDS = (
    "the",
    "old",
    "woman",
    "see",
    "##s",
    "a",
    "red",
    "boat",
    "near",
    "river",
    ".",
    ",",
    "near",
    "##er",
    "two",
    "books",
)
LETTERS = (
    "abcdefghijklmnopqrstuvwxyzหญิงชราเ็นอสีแดใกล้แม่น้ำบ้าขยพตัวื่ไมหมอครู"
    "ลูพีองเ0123456789ابتثجحخدذرزسشصضطظعغفقكلمنهويةىئؤأإآء"
)
NAMES = list(dict.fromkeys([
    "[PAD]", "[unused1]", "[unused2]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<S>", *WORDS, *LETTERS,
    *("##" + c for c in LETTERS), *LETTERS.upper(), "中", "文", "é", "##é", "!", "##!", "#", "[", "]",
]))  # fmt: skip
SPECIAL_NAMES = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]")
LINES = (
    "the old woman sees a red boat near the river.",
    "THE Éléphant 中文 xyz!",
    "",
    "หญิงชรา two books nearer [MASK]",
)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BertForMaskedLM with random weights and the files of mBERT's cased tokenizer."""
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    folder = tmp_path_factory.mktemp("foreign") / "mbert"
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=len(NAMES), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=48, max_position_embeddings=64,
        )
    )  # fmt: skip
    shake(model)
    model.save_pretrained(folder)
    vocab = {name: number for number, name in enumerate(NAMES)}
    BertTokenizer(vocab=vocab, do_lower_case=False).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def imported(foreign: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("imported") / "mbert"
    run_hf(ImportConfig(foreign, out, ("en", "th")))
    return out


def our_ids(tokens: list[int]) -> list[int]:
    """Their ids as ours, by name."""
    specials = {"[CLS]": 0, "[PAD]": 1, "[SEP]": 2, "[UNK]": 3, "[MASK]": len(NAMES) - 1}
    rest = [name for name in NAMES if name not in specials]
    return [specials[NAMES[t]] if NAMES[t] in specials else 4 + rest.index(NAMES[t]) for t in tokens]


def test_bert_gives_the_same_logits(foreign: Path, imported: Path) -> None:
    from transformers import AutoTokenizer, BertForMaskedLM

    theirs, fast = BertForMaskedLM.from_pretrained(foreign).eval(), AutoTokenizer.from_pretrained(foreign)
    model, langs = model_weights.load_model(imported)
    assert langs == ["en", "th"] and model.cfg.norm_eps == 1e-12
    order = our_ids(list(range(len(NAMES))))
    for texts in (*((line,) for line in LINES), LINES[:2]):
        batch = fast(*texts, return_tensors="pt")
        mine, segments = our_ids(batch["input_ids"][0].tolist()), batch["token_type_ids"][0].numpy()
        assert segments.any() == (len(texts) == 2)
        example = {"id": np.array([0]), "tokens": np.array(mine), "positions": np.arange(len(mine))}
        example["segments"] = segments
        with torch.inference_mode():
            found = theirs(**batch).logits[0]
            logits = model.eval().lm_head.logits(model(**pack([example])["net_input"]))
        assert found.abs().max() > 1
        assert largest(found, logits[:, order]) < 1e-5


def test_ids_are_theirs(foreign: Path, imported: Path) -> None:
    from transformers import AutoTokenizer

    fast, processor = AutoTokenizer.from_pretrained(foreign), vocabulary.load_processor(imported)
    assert processor.get_piece_size() == len(NAMES) - 2
    for line in [*ODD, *LINES[:3], "[unused1] ##s"]:
        wanted = our_ids(fast(line, add_special_tokens=False)["input_ids"])
        assert encode_pieces(processor, line) == wanted, repr(line[:80])
    assert 3 in encode_pieces(processor, "ж 中文")  # no such letter
    assert processor.encode(["two books", ""]) == [processor.encode("two books"), []]
    assert processor.encode("two sees", out_type=str) == ["\u2581two", "\u2581see", "s"]
    assert processor.decode(processor.encode("two  sees")) == "two sees"


@given(st.text(st.sampled_from("theoldwmansrb .,É中\u0301\u200d#[]"), max_size=30))
def test_offsets_are_where_pieces_stand(imported: Path, text: str) -> None:
    found = vocabulary.load_processor(imported).encode(text, return_type="offset_mapping")
    assert len(found["ids"]) == len(found["offsets"])
    for number, (begin, end) in zip(found["ids"], found["offsets"], strict=True):
        piece = vocabulary.load_processor(imported).id_to_piece(number).removeprefix("\u2581")
        assert number == 0 or text[begin:end] == piece


def test_answers_with_other_pieces_are_not_reused(
    imported: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [EncoderBackend(each, "pretrained").digest for each in (imported, model)]
    monkeypatch.setattr(vocabulary, "IMPORTED_PIECES", 1)
    after = [EncoderBackend(each, "pretrained").digest for each in (imported, model)]
    assert before[0] != after[0]
    assert before[1] == after[1] == manifest.digest(model)


def test_words_begin_where_no_hashes_are(imported: Path) -> None:
    dictionary = load_dictionary(imported)
    starts = word_starts_of(dictionary)
    assert dictionary.index("<mask>") == len(NAMES) - 1
    shown = {dictionary[i]: bool(starts[i]) for i in range(len(dictionary))}
    assert shown["see"] and not shown["##s"] and not shown["<mask>"] and not shown["</s>"]


def test_pretraining_goes_on_from_it(
    imported: Path, corpus: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    paths = {lang: (str(corpus / f"{lang}.txt"),) for lang in ("en", "th")}
    data = tmp_path / "shards"
    binarize.run(binarize.BinarizeConfig(vocab=str(imported), out=str(data), corpora=paths))
    shape = ("model.heads=4", "model.ffn_dim=48", "model.norm_eps=1e-12", "model.segment_embeddings=true")
    shape = (*shape, "objectives.mmlm.mask_unit=word")
    words = [*tiny, *shape, f"data={data}", f"out={tmp_path / 'out'}", f"init={imported}", "train.updates=2"]
    made = pretrain(config.load(PretrainConfig, overrides=[*words, "train.lr=1e-9"]))
    assert made.counts["updates"] == 2  # type: ignore[union-attr]
    old, new = (model_weights.load_model(x)[0].encoder.tokens.weight for x in (imported, tmp_path / "out"))
    assert torch.allclose(old, new, atol=1e-6)
    assert vocabulary.load_processor(tmp_path / "out").encode("two books") == vocabulary.load_processor(
        imported
    ).encode("two books")


@pytest.mark.parametrize("kind", ["classify", "pair", "span", "tag"])
def test_task_models_are_tuned_and_exported(imported: Path, tmp_path: Path, kind: str) -> None:
    import transformers

    labels = () if kind == "span" else LABELS
    cfg = TuneConfig(epochs=1, lr=1e-2, batch_rows=2, max_length=64, precision="fp32")
    tuned = fine_tune(imported, kind, labels, ROWS[kind], cfg)[-1]
    with manifest.publish(tmp_path / "task", "finetune", cfg, [imported]) as made:
        tune.save_tuned(tuned, made.path, imported, ["en"])
    again = tune.load_tuned(tmp_path / "task")
    assert again.predict(ROWS[kind]) == tuned.predict(ROWS[kind])
    export_hf(ExportConfig(tmp_path / "task", tmp_path / "out"))
    settings = json.loads((tmp_path / "out" / "config.json").read_text())
    theirs = getattr(transformers, settings["architectures"][0]).from_pretrained(tmp_path / "out").eval()
    fast = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert fast.mask_token_id == len(NAMES) - 1 and fast.pad_token_id == 1
    if kind == "tag":
        return
    for row in ROWS[kind]:
        (example,) = TASKS[kind].encode(tuned.processor, row, labels, 64)
        names = ("question", "context") if kind == "span" else tuple(row.fields)
        batch = fast(*(row.fields[name] for name in names), return_tensors="pt")
        assert batch["input_ids"][0].tolist() == example["tokens"].tolist()
        assert batch["token_type_ids"].any() == (kind != "classify")
        with torch.inference_mode():
            mine, found = again.model(pack([example | {"id": np.array([0])}])), theirs(**batch)
        scores = found.start_logits[0, example["chosen"]] if kind == "span" else found.logits
        assert largest(scores, mine[:, 0] if kind == "span" else mine) < 1e-5


def test_a_bare_encoder_of_old_files(
    copied: Path, imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A BertModel as a pickle with TensorFlow's names and vocab.txt alone: the encoder is the same."""
    from safetensors.torch import load_file

    state = {
        name.removeprefix("bert.")
        .replace("LayerNorm.weight", "LayerNorm.gamma")
        .replace("LayerNorm.bias", "LayerNorm.beta"): x
        for name, x in load_file(copied / "model.safetensors").items()
        if name.startswith("bert.")
    }
    (copied / "model.safetensors").unlink()
    torch.save(state, copied / "pytorch_model.bin")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (copied / name).unlink(missing_ok=True)
    (copied / "vocab.txt").write_text("".join(f"{name}\n" for name in NAMES), encoding="utf-8")
    run_hf(ImportConfig(copied, tmp_path / "out", allow_pickle=True))
    one, two = (model_weights.load_model(x)[0].encoder.state_dict() for x in (imported, tmp_path / "out"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    # The vocabulary has capitals, so text keeps its own.
    assert "texts keep their case, as vocab.txt has capitals" in capsys.readouterr().err
    first, second = (vocabulary.load_processor(x) for x in (imported, tmp_path / "out"))
    assert first.encode("THE Old") == second.encode("THE Old") != second.encode("the old")


def unigram() -> Tokenizer:
    """The tokenizer of XLM-R, which multilingual MiniLM and E5 have under a BERT."""
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made.train_from_iterator(
        LINES, trainers.UnigramTrainer(vocab_size=60, special_tokens=specials, unk_token="<unk>")
    )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return made


def changed_wordpiece(**parts: Any) -> Tokenizer:
    made = Tokenizer(
        models.WordPiece(
            {name: n for n, name in enumerate(NAMES)}, unk_token="[UNK]", **parts.pop("model", {})
        )
    )
    made.normalizer = parts.get("normalizer", normalizers.BertNormalizer(lowercase=False))
    made.pre_tokenizer = parts.get("pre_tokenizer", pre_tokenizers.BertPreTokenizer())
    made.post_processor = processors.BertProcessing(("[SEP]", 5), ("[CLS]", 4))
    return made


OTHER_TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "XLM-R's": unigram,
    "lower-cased first": lambda: changed_wordpiece(
        normalizer=normalizers.Sequence(
            [normalizers.Lowercase(), normalizers.BertNormalizer(lowercase=False)]
        )
    ),
    "split at spaces": lambda: changed_wordpiece(pre_tokenizer=pre_tokenizers.WhitespaceSplit()),
    "long words": lambda: changed_wordpiece(model={"max_input_chars_per_word": 300}),
}


@pytest.mark.parametrize("kind", OTHER_TOKENIZERS)
def test_a_bert_with_another_tokenizer_keeps_it(foreign: Path, tmp_path: Path, kind: str) -> None:
    from transformers import BertModel, PreTrainedTokenizerFast

    model = BertModel.from_pretrained(foreign, add_pooling_layer=False)
    model.save_pretrained(tmp_path / "bert")
    names = ("<s>", "<pad>", "</s>", "<unk>", "<mask>") if kind == "XLM-R's" else SPECIAL_NAMES
    fast = PreTrainedTokenizerFast(
        tokenizer_object=OTHER_TOKENIZERS[kind](),
        **dict(zip(("cls_token", "pad_token", "sep_token", "unk_token", "mask_token"), names, strict=True)),
    )
    fast.save_pretrained(tmp_path / "bert")
    run_hf(ImportConfig(tmp_path / "bert", tmp_path / "out"))
    backend = EncoderBackend(tmp_path / "out", "pretrained")
    processor = vocabulary.load_processor(tmp_path / "out")
    for line in (*LINES[:3], "a" * 150, "two-books, (see)"):
        batch = fast(line, return_tensors="pt", truncation=True, max_length=64)
        ids = [processor._stored_ids[n] for n in encode_pieces(processor, line)][:62]
        assert ids == batch["input_ids"][0, 1:-1].tolist(), line
        batch.pop("token_type_ids", None)
        with torch.inference_mode():
            wanted = model.eval()(**batch).last_hidden_state[0, 0]
        assert largest(backend.embed([line], "en", -1, "cls")[0], wanted) < 1e-5


def edit(path: Path, **values: object) -> None:
    found = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(found | values))


def as_list_of_pieces(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("".join(f"{name}\n" for name in NAMES), encoding="utf-8")
    edit(folder / "added_tokens.json", **{"<ent>": len(NAMES)})


SAID_BESIDE: dict[str, Callable[[Path], None]] = {
    "case": lambda folder: edit(folder / "tokenizer_config.json", do_lower_case=True),
    "accents": lambda folder: edit(folder / "tokenizer_config.json", strip_accents=True),
    "Chinese": lambda folder: edit(folder / "tokenizer_config.json", tokenize_chinese_chars=False),
    "a token in the vocabulary": lambda folder: edit(
        folder / "tokenizer_config.json", additional_special_tokens=["[unused1]"]
    ),
    "a token behind it": as_list_of_pieces,
    "a token of the settings": lambda folder: edit(
        folder / "tokenizer_config.json",
        added_tokens_decoder={str(len(NAMES)): {"content": "<ent>", "special": True}},
    ),
}


@pytest.mark.parametrize("kind", SAID_BESIDE)
def test_what_files_beside_the_tokenizer_say_is_read_as_transformers_does(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    from safetensors.torch import load_file, save_file
    from transformers import AutoTokenizer

    name = "bert.embeddings.word_embeddings.weight"
    weights = {n: t for n, t in load_file(copied / "model.safetensors").items() if n.startswith("bert.")}
    save_file(weights | {name: torch.cat([weights[name], weights[name][-1:]])}, copied / "model.safetensors")
    edit(copied / "config.json", vocab_size=len(NAMES) + 1)
    SAID_BESIDE[kind](copied)
    run_hf(ImportConfig(copied, tmp_path / "out"))
    is_named = "and tokenizer.json says otherwise" in capsys.readouterr().err
    assert is_named == (kind in ("case", "accents", "Chinese"))
    processor, theirs = vocabulary.load_processor(tmp_path / "out"), AutoTokenizer.from_pretrained(copied)
    for line in (*LINES[:3], "THE Old [unused1]boat <ent> sees<ent>a é 中文"):
        ids = [processor._stored_ids[n] for n in encode_pieces(processor, line)]
        assert ids == theirs(line, add_special_tokens=False)["input_ids"], line


def test_case_that_nothing_beside_the_tokenizer_names_is_told(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / "tokenizer_config.json").unlink()
    run_hf(ImportConfig(copied, tmp_path / "out"))
    assert "texts keep their case, as tokenizer.json says" in capsys.readouterr().err


def test_an_adapter_beside_the_weights_is_refused(copied: Path, tmp_path: Path) -> None:
    edit(copied / "adapter_config.json", peft_type="LORA", base_model_name_or_path="base")
    with pytest.raises(UserError, match=r"has an adapter beside its weights .* merge_and_unload"):
        run_hf(ImportConfig(copied, tmp_path / "out"))


def test_a_head_that_is_left_out_is_told_each_time(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLING_CACHE", str(tmp_path / "cache"))
    edit(copied / "config.json", architectures=["BertForTokenClassification"])
    for _ in range(2):
        cached_checkpoint(f"hf:{copied}")
        assert "is a BertForTokenClassification: its encoder is read and its head" in capsys.readouterr().err
    edit(copied / "config.json", architectures=["BertForMaskedLM"])
    cached_checkpoint(f"hf:{copied}")
    assert "its encoder is read and its head" not in capsys.readouterr().err


def test_a_tokenizer_that_only_python_has_is_refused(copied: Path, tmp_path: Path) -> None:
    (copied / "tokenizer.json").unlink()
    (copied / "vocab.txt").write_text("".join(f"{name}\n" for name in NAMES), encoding="utf-8")
    settings = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "basic"}
    (copied / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match="has no tokenizer that can be read here"):
        run_hf(ImportConfig(copied, tmp_path / "out"))


def rename_piece(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "tokenizer.json"
        found = json.loads(path.read_text())
        found["model"]["vocab"][new] = found["model"]["vocab"].pop(old)
        found["added_tokens"] = [t for t in found["added_tokens"] if t["content"] != old]
        path.write_text(json.dumps(found))

    return change


def more_pieces(folder: Path) -> None:
    path = folder / "tokenizer.json"
    found = json.loads(path.read_text())
    found["model"]["vocab"]["more"] = len(NAMES)
    path.write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (truncate, "damaged"),
        (more_pieces, f"{len(NAMES)} embeddings, and its vocabulary {len(NAMES) + 1} different pieces"),
        (rename_piece("[MASK]", "mask"), r"has no \[MASK\]"),
        (rename_piece("boat", "a boat"), "has a space"),
        (set_config(hidden_act="relu"), "hidden_act='relu'"),
        (set_config(position_embedding_type="relative_key"), "position_embedding_type='relative_key'"),
        (set_config(num_hidden_layers=3), "has no encoder.layers.2"),
        (set_config(num_attention_heads=5), "width 32 and 5 heads"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "no vocabulary"),
        (lambda folder: (folder / "vocab.txt").write_text("\n".join(NAMES[::-1])), "vocab.txt differ"),
    ],
)
def test_what_does_not_belong_is_refused(
    copied: Path, tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    harm(copied)
    with pytest.raises(UserError, match=said):
        run_hf(ImportConfig(copied, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("num", "is_read"), [(1, True), (127, True), (128, False)])
def test_rows_that_round_a_matrix_up_are_left_out(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], num: int, is_read: bool
) -> None:
    from transformers import AutoModelForMaskedLM

    model = AutoModelForMaskedLM.from_pretrained(copied)
    model.resize_token_embeddings(len(NAMES) + num, mean_resizing=False)
    model.save_pretrained(copied)
    if not is_read:
        with pytest.raises(UserError, match=f"has {len(NAMES) + num} embeddings, and its vocabulary"):
            run_hf(ImportConfig(copied, tmp_path / "out"))
        return
    run_hf(ImportConfig(copied, tmp_path / "out"))
    assert f"{num} of {len(NAMES) + num} rows of its embeddings belong to no token" in capsys.readouterr().err
    found = model_weights.load_model(tmp_path / "out")[0].encoder.tokens.weight
    assert len(found) == len(NAMES)
    mask = model.get_input_embeddings().weight[NAMES.index("[MASK]")]
    assert torch.equal(found[-1], mask)


def test_code_in_a_pickle_is_refused_and_not_run(copied: Path, tmp_path: Path) -> None:
    as_pickle(copied, Planted(tmp_path / "ran"))
    for flag, said in ((False, "allow_pickle=true"), (True, "holds more than tensors")):
        with pytest.raises(UserError, match=said):
            run_hf(ImportConfig(copied, tmp_path / "out", allow_pickle=flag))
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out").exists()


def test_what_a_wordpiece_vocabulary_cannot_do_is_said(
    imported: Path, foreign: Path, vocab: Path, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(UserError, match="WordPiece vocabulary"):
        run_fairseq(ExportConfig(imported, out))
    with pytest.raises(UserError, match="WordPiece vocabulary"):
        trim(TrimConfig(imported, out, {"en": (str(corpus / "en.txt"),)}))
    with pytest.raises(UserError, match="a vocabulary of another kind"):
        run_hf(replace(ImportConfig(foreign, out), extend_vocab=vocab))
    assert not out.exists()


def test_it_is_quantised_with_its_own_vocabulary(imported: Path, tmp_path: Path) -> None:
    quantize(QuantizeConfig(imported, tmp_path / "small"))
    names = {path.name for path in (tmp_path / "small").iterdir()}
    assert names == {"model.pt", "dict.txt", "wordpiece.json", "manifest.json"}
    assert vocabulary.load_processor(tmp_path / "small").encode("the old") == vocabulary.load_processor(
        imported
    ).encode("the old")
