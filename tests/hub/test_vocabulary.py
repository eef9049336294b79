"""Vocabularies of other programs, imported from ``tokenizer.json``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.hub import charsmap, imports, vocabulary
from xling.hub.settings import ImportConfig, TokenizerConfig
from xling.models.files.model_weights import load_model
from xling.text import vocab

SPECIALS = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
ODD = [
    "Cafe\u0301 \uff21\uff22\uff23  two  spaces\tand\u00a0more", "emoji \U0001f98a\U0001f468\u200d\U0001f469", "", " ",
    "\u0627\u0644\u0644\u063a\u0629 \u0e20\u0e32\u0e29\u0e32 \u4e2d\u6587", "UPPER lower Title",
    "\ufb01 \u2460 \u00bd", "a\r\nb",
]  # fmt: skip


def like_gemma(lines: Iterator[str] | list[str], size: int) -> Tokenizer:
    """Train a BPE with case and bytes for what has no piece, spaces as marks, as Gemma's."""
    made = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    made.normalizer = normalizers.Replace(" ", "\u2581")
    made.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    made.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    in_bytes = [f"<0x{n:02X}>" for n in range(256)]
    made.train_from_iterator(
        lines,
        trainers.BpeTrainer(vocab_size=size, special_tokens=[*SPECIALS, *in_bytes], show_progress=False),
    )
    # Bytes are pieces, not specials that would be found in the text.
    told = json.loads(made.to_str())
    told["added_tokens"] = [token for token in told["added_tokens"] if token["content"] in SPECIALS]
    return Tokenizer.from_str(json.dumps(told))


def same_ids(folder: Path, theirs: Tokenizer, lines: list[str]) -> None:
    processor = vocab.load_processor(folder)
    order = json.loads((folder / vocab.TRANSFORMERS_TOKENIZER).read_text())["order"]
    for line in lines:
        ours = [order[n + 1] if n else order[3] for n in processor.encode(line)]
        assert ours == theirs.encode(line, add_special_tokens=False).ids, line


@pytest.fixture(scope="module")
def gemma(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gemma")
    lines = [
        line for path in sorted(corpus.glob("*")) if path.is_file() for line in path.read_text().splitlines()
    ]
    like_gemma(lines, 600).save(str(folder / "tokenizer.json"))
    return folder


def test_ids_are_those_of_the_tokenizer_on_any_text(gemma: Path, corpus: Path, tmp_path: Path) -> None:
    made = vocabulary.run(TokenizerConfig(gemma, tmp_path / "vocab"))
    theirs = Tokenizer.from_file(str(gemma / "tokenizer.json"))
    assert made.counts["pieces"] == theirs.get_vocab_size() - 5
    text = [
        line for path in sorted(corpus.glob("*")) if path.is_file() for line in path.read_text().splitlines()
    ]
    same_ids(tmp_path / "vocab", theirs, [*ODD, *text])
    processor = vocab.load_processor(tmp_path / "vocab")
    assert processor.decode(processor.encode(ODD[0])) == ODD[0], "bytes bring back what has no piece"
    names = (tmp_path / "vocab/dict.txt").read_text().splitlines()
    assert len(set(names)) == len(names) == made.counts["pieces"]
    assert manifest.read(tmp_path / "vocab").stage == "import tokenizer"


def test_settings_beside_the_file_name_the_specials(gemma: Path, tmp_path: Path) -> None:
    told = json.loads((gemma / "tokenizer.json").read_text().replace("<bos>", "<begin>"))
    (tmp_path / "tokenizer.json").write_text(json.dumps(told))
    with pytest.raises(UserError, match="no token for begin; valid: one of <s> <bos>"):
        vocabulary.run(TokenizerConfig(tmp_path / "tokenizer.json", tmp_path / "vocab"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": {"content": "<begin>"}}))
    vocabulary.run(TokenizerConfig(tmp_path, tmp_path / "vocab"))
    assert json.loads((tmp_path / "vocab" / vocab.TRANSFORMERS_TOKENIZER).read_text())["order"][:4] == [
        2,
        0,
        1,
        3,
    ]
    (tmp_path / "tokenizer.json").write_text("{}")
    for source, said in ((tmp_path, "not a tokenizer.json"), (tmp_path / "none", "no file")):
        with pytest.raises(UserError, match=said):
            vocabulary.run(TokenizerConfig(source, tmp_path / "other"))


def test_a_modernbert_with_such_a_tokenizer_has_its_rows_by_our_ids(gemma: Path, tmp_path: Path) -> None:
    from transformers import ModernBertConfig, ModernBertForMaskedLM

    size = Tokenizer.from_file(str(gemma / "tokenizer.json")).get_vocab_size()
    ids = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2, "cls_token_id": 2, "sep_token_id": 1}
    cfg = ModernBertConfig(
        vocab_size=size + 7, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        max_position_embeddings=64, **ids,
    )  # fmt: skip
    torch.manual_seed(1)
    theirs = ModernBertForMaskedLM(cfg).eval()
    theirs.save_pretrained(tmp_path / "hf")
    (tmp_path / "hf/tokenizer.json").write_text((gemma / "tokenizer.json").read_text())
    special = {f"{name[1:-1]}_token": name for name in SPECIALS}
    (tmp_path / "hf/tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **special})
    )
    imports.run_hf(ImportConfig(tmp_path / "hf", tmp_path / "ours"))
    ours, _ = load_model(tmp_path / "ours")
    order = json.loads((tmp_path / "ours" / vocab.TRANSFORMERS_TOKENIZER).read_text())["order"]
    assert len(order) == size == len(ours.encoder.tokens.weight)
    mine = torch.randint(4, size, (20,), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        wanted = theirs(torch.tensor(order)[mine][None]).logits[0][:, order]
        got = ours.eval().lm_head.logits(ours(mine, torch.arange(20), ((1, 20),)))
    assert torch.allclose(got, wanted, atol=1e-5)


@pytest.mark.data
def test_ids_are_equal_on_lines_of_ntrex(tmp_path: Path) -> None:
    files = sorted((Path(os.environ["XLING_DATA"]) / "ntrex").glob("ntrex.*.txt"))
    lines = [line for path in files for line in path.read_text(encoding="utf-8").split("\n")]
    assert len(lines) >= 30_000
    lines = lines[::3]
    like_gemma(lines, 8000).save(str(tmp_path / "tokenizer.json"))
    vocabulary.run(TokenizerConfig(tmp_path, tmp_path / "vocab"))
    same_ids(tmp_path / "vocab", Tokenizer.from_file(str(tmp_path / "tokenizer.json")), [*ODD, *lines])


def test_neighbours_are_a_range_of_a_character_class() -> None:
    assert charsmap._character_class("cabx") == r"[\x{61}-\x{63}\x{78}]"
