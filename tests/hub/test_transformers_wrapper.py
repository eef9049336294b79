"""Encoders that transformers computes: equal states, ids and scores, and every command that reads a checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from tests.hub.differences import largest
from tests.tuning import fine_tune
from xling.core.commands import inputs
from xling.core.commands.runner import load
from xling.core.errors import UserError
from xling.hub.export import run_hf as export_hf
from xling.hub.imports import run_hf
from xling.hub.settings import ExportConfig, ImportConfig
from xling.models.files import model_weights
from xling.text import vocab
from xling.transfer import tune
from xling.transfer.backend import EncoderBackend
from xling.transfer.encode import encode_pieces
from xling.transfer.settings import TuneConfig

LINES = (
    "The old woman sees a red boat near the river.", "two books", "جارتي تبيع خبزا", "หญิงชรา", "naïve Ångström",
)  # fmt: skip
SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}


def byte_level(text: list[str]) -> Any:
    """RoBERTa's kind of tokenizer: a merge is made of bytes."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        text, trainers.BpeTrainer(vocab_size=320, special_tokens=names, initial_alphabet=alphabet)
    )
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return made, dict(
        zip(("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"), names, strict=True)
    )


def wordpiece(text: list[str]) -> Any:
    """BERT's kind."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = (
        normalizers.BertNormalizer(lowercase=False),
        pre_tokenizers.BertPreTokenizer(),
    )
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator(text, trainers.WordPieceTrainer(vocab_size=200, special_tokens=names))
    return made, dict(
        zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), names, strict=True)
    )


def unigram(text: list[str]) -> Any:
    """DeBERTa v3's kind."""
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    names = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    made.train_from_iterator(
        text, trainers.UnigramTrainer(vocab_size=180, special_tokens=names, unk_token="[UNK]")
    )
    return made, dict(
        zip(("pad_token", "cls_token", "sep_token", "unk_token", "mask_token"), names, strict=True)
    )


KINDS: dict[str, tuple[Callable[[list[str]], Any], dict[str, Any]]] = {
    "roberta": (byte_level, SMALL | {"max_position_embeddings": 66, "pad_token_id": 1}),
    "camembert": (byte_level, SMALL | {"max_position_embeddings": 66, "pad_token_id": 1}),
    "xlm-roberta-xl": (byte_level, SMALL | {"max_position_embeddings": 66, "pad_token_id": 1}),
    "mpnet": (byte_level, SMALL | {"max_position_embeddings": 66, "pad_token_id": 1}),
    "electra": (wordpiece, SMALL | {"max_position_embeddings": 64, "embedding_size": 32}),
    "distilbert": (wordpiece, {"n_layers": 2, "dim": 32, "n_heads": 4, "hidden_dim": 48,
                               "max_position_embeddings": 64}),
    "deberta": (byte_level, SMALL | {"max_position_embeddings": 64, "relative_attention": True,
                                     "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}),
    "deberta-v2": (unigram, SMALL | {"max_position_embeddings": 64, "relative_attention": True,
                                     "pos_att_type": ["p2c", "c2p"], "position_buckets": 16, "share_att_key": True,
                                     "norm_rel_ebd": "layer_norm", "position_biased_input": False}),
}  # fmt: skip


def save_random(kind: str, text: list[str], folder: Path) -> None:
    """Write a masked language model of a type with random weights, as transformers saves it."""
    from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedTokenizerFast

    torch.manual_seed(1)
    train, settings = KINDS[kind]
    tokenizer, names = train(text)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(kind, vocab_size=len(fast), **settings))
    for name, parameter in model.named_parameters():  # biases and norms are not random by themselves
        if name.endswith("bias") or "norm" in name.lower():
            torch.nn.init.normal_(parameter, 0.5, 0.3)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)


@pytest.fixture(scope="module")
def written(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``written(TYPE)``: the model of `save_random`, made once."""
    text = [line for path in sorted(corpus.glob("*.txt")) for line in path.read_text().splitlines()] + list(
        LINES
    )

    def made(kind: str) -> Path:
        folder = tmp_path_factory.getbasetemp() / f"written-{kind}"
        if not folder.is_dir():
            save_random(kind, text, folder)
        return folder

    return made


@pytest.mark.parametrize("kind", KINDS)
def test_states_and_ids_are_those_of_transformers(
    written: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = written(kind)
    run_hf(ImportConfig(folder, tmp_path / "in"))
    fast, theirs = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    processor = vocab.load_processor(tmp_path / "in")
    for line in LINES:
        ours = [processor._stored_ids[n] for n in encode_pieces(processor, line)]
        assert ours == fast(line, add_special_tokens=False)["input_ids"], line
    assert len(processor._stored_ids) == len(
        model_weights.load_model(tmp_path / "in")[0].encoder.tokens.weight
    )
    backend = EncoderBackend(tmp_path / "in", "pretrained")
    for layer in (1, -1):
        mine = backend.embed(LINES, "en", layer, "mean")
        for row, line in enumerate(LINES):
            ids = [
                processor._stored_ids[0],
                *fast(line, add_special_tokens=False)["input_ids"],
                processor._stored_ids[2],
            ]
            with torch.inference_mode():
                states = theirs(torch.tensor([ids]), output_hidden_states=True).hidden_states[layer][0, 1:-1]
            assert largest(mine[row], states.mean(0)) <= 1e-5, (kind, line)


@pytest.mark.parametrize("kind", ["roberta", "distilbert", "deberta", "deberta-v2"])
def test_a_type_of_few_bits_rounds_no_weight_and_no_state(
    written: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    from transformers import AutoModel

    run_hf(ImportConfig(written(kind), tmp_path / "in"))
    folder = Path(shutil.copytree(written(kind), tmp_path / "model"))
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"dtype": "bfloat16"}))
    run_hf(ImportConfig(folder, tmp_path / "few"))
    wanted, found = (
        EncoderBackend(tmp_path / name, "pretrained").embed(LINES, "en", -1, "mean") for name in ("in", "few")
    )
    assert wanted.tobytes() == found.tobytes()
    export_hf(ExportConfig(tmp_path / "few", tmp_path / "out"))
    theirs, again = (AutoModel.from_pretrained(each) for each in (written(kind), tmp_path / "out"))
    for name, weight in theirs.state_dict().items():
        if "pooler" not in name:  # a masked language model has none
            assert torch.equal(weight, again.state_dict()[name]), name


WRITTEN_OUT = "the </s> old <mask> woman<pad>x [MASK][SEP] <s>a"


@pytest.mark.parametrize("kind", ["roberta", "distilbert", "deberta-v2"])
def test_specials_that_somebody_wrote_into_a_text_are_its_letters(
    written: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    from transformers import AutoTokenizer

    folder = Path(shutil.copytree(written(kind), tmp_path / "model"))
    fast = AutoTokenizer.from_pretrained(folder)
    free = next(n for n in range(10, len(fast)) if fast.convert_ids_to_tokens(n).isalpha())
    marker = fast.convert_ids_to_tokens(free)
    fast.add_special_tokens({"additional_special_tokens": [marker]})
    fast.save_pretrained(folder)
    run_hf(ImportConfig(folder, tmp_path / "in"))
    processor = vocab.load_processor(tmp_path / "in")
    ids = encode_pieces(processor, WRITTEN_OUT)
    assert not {0, 1, 2, processor.get_piece_size() + 1} & {*ids}
    if kind == "roberta":  # the others have no pieces for some of the letters
        assert "".join(processor.encode(WRITTEN_OUT, out_type=str)).replace("\u2581", " ") == WRITTEN_OUT
    assert [processor._stored_ids[n] for n in encode_pieces(processor, f"the {marker} old")] == fast(
        f"the {marker} old", add_special_tokens=False
    )["input_ids"]


@pytest.mark.parametrize(("kind", "is_told"), [("roberta", False), ("electra", True)])
def test_specials_that_the_tokenizer_does_not_put_around_a_text_are_told(
    written: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    is_told: bool,
) -> None:
    run_hf(ImportConfig(written(kind), tmp_path / "in"))
    assert ("[CLS] and [SEP] are put around a text here" in capsys.readouterr().err) == is_told


def test_the_ends_of_a_text_are_those_of_the_template(written: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(written("roberta"), tmp_path / "model"))
    path = folder / "tokenizer_config.json"
    others = {"cls_token": "<mask>", "sep_token": "<unk>"}
    tokens = json.loads((folder / "tokenizer.json").read_text())
    tokens["padding"] = {"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 1,
                         "pad_type_id": 0, "pad_token": "<pad>"}  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokens))
    path.write_text(json.dumps(json.loads(path.read_text()) | others))
    run_hf(ImportConfig(folder, tmp_path / "in"))
    assert vocab.load_processor(tmp_path / "in")._stored_ids[:3] == [0, 1, 2]


@pytest.mark.parametrize(("kind", "counted"), [("roberta", 0), ("mpnet", 1)])
def test_positions_that_count_from_another_padding_are_refused(
    written: Callable[[str], Path], tmp_path: Path, kind: str, counted: int
) -> None:
    folder = Path(shutil.copytree(written(kind), tmp_path / "model"))
    name, other = (
        ("config.json", {"pad_token_id": 0})
        if kind == "roberta"
        else ("tokenizer_config.json", {"pad_token": "<unk>"})
    )
    (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | other))
    pads_with = 1 if kind == "roberta" else 3
    with pytest.raises(UserError, match=f"pad_token_id={counted}, and its tokenizer pads with {pads_with}"):
        run_hf(ImportConfig(folder, tmp_path / "in"))


@pytest.mark.parametrize("kind", ["roberta", "deberta-v2"])
def test_scores_of_fine_tuning_are_those_of_plain_transformers(
    written: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    """The same head, rows and updates with transformers' own model, tokens and masks."""
    from transformers import AutoModel

    from tests.hub.conftest import LABELS, ROWS

    folder = written(kind)
    run_hf(ImportConfig(folder, tmp_path / "in"))
    cfg = TuneConfig(epochs=3, lr=1e-3, batch_rows=2, max_length=48, precision="fp32", dropout=0.0)
    tuned = fine_tune(tmp_path / "in", "classify", LABELS, ROWS["classify"], cfg)[-1]  # type: ignore[arg-type]
    tune.save_tuned(tuned, tmp_path, tmp_path / "in", [])
    again = tune.load_tuned(tmp_path)
    rows = ROWS["classify"]
    assert again.predict(rows) == tuned.predict(rows)
    theirs = AutoModel.from_pretrained(folder).eval()
    state = {
        n.removeprefix("body."): t
        for n, t in again.model.encoder.state_dict().items()
        if n.startswith("body.")
    }
    order = again.processor._stored_ids
    name = next(n for n in state if n.endswith("word_embeddings.weight"))
    table = theirs.get_input_embeddings().weight.detach().clone()
    table[order] = state[name]
    theirs.load_state_dict(state | {name: table})
    head = again.model
    assert head.dense is not None
    for row, (_, example) in zip(rows, again.encode(rows), strict=True):
        ids = torch.tensor([[order[n] for n in example["tokens"]]])
        with torch.inference_mode():
            state_0 = theirs(ids, attention_mask=torch.ones_like(ids)).last_hidden_state[:, 0]
            wanted = head.classifier(torch.tanh(head.dense(state_0)))
            from xling.data.packing import pack

            found = head(pack([example | {"id": np.array([0])}]))
        assert largest(found, wanted) <= 1e-5, row


def test_a_checkpoint_may_be_named_hf(
    written: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from xling.eval.run.settings import EvalConfig

    monkeypatch.setenv("XLING_CACHE", str(tmp_path / "cache"))
    cfg = EvalConfig(suites=("x",), out=tmp_path / "run", checkpoint=Path(f"hf:{written('roberta')}"))
    found = inputs.import_hub_inputs("checkpoint translator", cfg, load)
    assert found.checkpoint is not None and (found.checkpoint / "model.pt").is_file()
    assert found.checkpoint.is_relative_to(tmp_path / "cache")
    assert "is imported into" in capsys.readouterr().err
    assert inputs.import_hub_inputs("checkpoint translator", cfg, load) == found
    assert capsys.readouterr().err == ""
    several = EvalConfig(suites=("x",), out=tmp_path, checkpoints=("runs/a", f"big={cfg.checkpoint}"))
    named = inputs.import_hub_inputs("checkpoint translator", several, load)
    assert named.checkpoints == ("runs/a", f"big={found.checkpoint}")


@pytest.mark.parametrize("kind", KINDS)
def test_exported_it_is_the_model_that_was_imported(
    written: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    """The class, the logits of the output layer, and the ids of texts and pairs."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = written(kind)
    run_hf(ImportConfig(folder, tmp_path / "in"))
    done = export_hf(ExportConfig(tmp_path / "in", tmp_path / "out"))
    theirs, ours = (AutoModelForMaskedLM.from_pretrained(path).eval() for path in (folder, tmp_path / "out"))
    assert done.counts["class"] == type(ours).__name__ == type(theirs).__name__
    fast, again = (AutoTokenizer.from_pretrained(path) for path in (folder, tmp_path / "out"))
    assert again.mask_token == fast.mask_token and again.pad_token == fast.pad_token
    for text in (*LINES, (LINES[0], LINES[1])):
        given = text if isinstance(text, tuple) else (text,)
        ids = fast(*given)["input_ids"]
        assert again(*given)["input_ids"] == ids
        with torch.inference_mode():
            wanted, found = (model(torch.tensor([ids])).logits for model in (theirs, ours))
        assert wanted.abs().max() > 0.1 and largest(wanted, found) <= 1e-5


HEADS = {
    "roberta": ("classify", "tag", "span", "choice"),
    "xlm-roberta-xl": ("classify",),
    "mpnet": ("classify", "choice"),
    "distilbert": ("tag", "span"),
    "electra": ("tag", "span"),
    "deberta": ("classify",),
    "deberta-v2": ("classify", "tag", "span", "choice"),
}


@pytest.mark.parametrize(("kind", "task"), [(kind, task) for kind, tasks in HEADS.items() for task in tasks])
def test_a_fine_tuned_model_is_exported_with_its_head(
    written: Callable[[str], Path], tmp_path: Path, kind: str, task: str
) -> None:
    import transformers

    from tests.hub.conftest import ROWS, tuned_from

    run_hf(ImportConfig(written(kind), tmp_path / "in"))
    rows: Any = ROWS[task]
    tuned = tuned_from(tmp_path / "in", tmp_path / "tuned", task, max_length=48)
    done = export_hf(ExportConfig(tmp_path / "tuned", tmp_path / "out"))
    model = getattr(transformers, done.counts["class"]).from_pretrained(tmp_path / "out").eval()
    order = tuned.processor._stored_ids
    for row, windows in zip(rows, tuned.scores(rows), strict=True):
        examples = [example for _, example in tuned.encode([row], labelled=False)]
        for example, (_, wanted) in zip(examples, windows, strict=True):
            ids = torch.tensor([[order[n] for n in example["tokens"]]])
            more = {}
            if int(model.config.to_dict().get("type_vocab_size") or 0) > 1 and "segments" in example:
                more["token_type_ids"] = torch.tensor(example["segments"])[None]
            if task == "choice":
                ids, more = ids[None], {name: each[None] for name, each in more.items()}
            with torch.inference_mode():
                result = model(ids, **more)
            if task == "span":
                found = torch.stack([result.start_logits[0], result.end_logits[0]], 1)[example["chosen"]]
            else:
                found = result.logits[0] if task != "tag" else result.logits[0][example["chosen"]]
            seen = np.isfinite(wanted) & (wanted > -1e4)
            apart = np.abs(found.numpy().reshape(wanted.shape) - wanted)[seen]
            assert seen.any() and apart.max() <= 1e-5, (kind, task)


def test_a_head_without_a_class_is_refused(written: Callable[[str], Path], tmp_path: Path) -> None:
    from tests.hub.conftest import tuned_from

    run_hf(ImportConfig(written("distilbert"), tmp_path / "in"))
    tuned_from(tmp_path / "in", tmp_path / "tuned", "classify", max_length=48)
    with pytest.raises(UserError, match="a head for classify as here, which DistilBert's classes cannot exp"):
        export_hf(ExportConfig(tmp_path / "tuned", tmp_path / "out"))


def test_what_it_cannot_do_is_refused(written: Callable[[str], Path], tmp_path: Path) -> None:
    run_hf(ImportConfig(written("roberta"), tmp_path / "in"))
    with pytest.raises(UserError, match=r"fit.layer_decay=0.5 with .* which is computed by transformers"):
        fine_tune(tmp_path / "in", "classify", ("a", "b"), [], TuneConfig(layer_decay=0.5))
    weights = torch.load(tmp_path / "in" / "model.pt", weights_only=True)
    del weights["kept"]
    torch.save(weights, tmp_path / "in" / "model.pt")
    with pytest.raises(UserError, match="kept no output layer; fix: import the model again"):
        export_hf(ExportConfig(tmp_path / "in", tmp_path / "out"))
    with pytest.raises(UserError, match="an encoder computed by transformers"):
        model_weights.has_decoder(tmp_path / "in")


def test_bpe_dropout_is_left_out_and_told(
    written: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(written("roberta"), folder)
    run_hf(ImportConfig(folder, tmp_path / "whole"))
    settings = json.loads((folder / "tokenizer.json").read_text())
    settings["model"]["dropout"] = 0.9
    (folder / "tokenizer.json").write_text(json.dumps(settings))
    run_hf(ImportConfig(folder, tmp_path / "in"))
    assert "leaves out merges by chance (BPE dropout)" in capsys.readouterr().err
    whole, ours = (vocab.load_processor(tmp_path / name) for name in ("whole", "in"))
    assert [ours.encode(line) for line in LINES] == [whole.encode(line) for line in LINES]
