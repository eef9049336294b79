"""MultiBLiMP and the pseudo-log-likelihood by which an encoder answers it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from xling.core.errors import UserError
from xling.eval.rows.suite import load, suites
from xling.eval.run import evaluation
from xling.eval.run.settings import EvalConfig
from xling.eval.scores.score_file import read_scores
from xling.models.files import model_weights
from xling.models.files.model_folder import TASK_FILE
from xling.transfer import likelihood
from xling.transfer.backend import EncoderBackend
from xling.transfer.encode import BOS, EOS, encode_pieces
from xling.transfer.likelihood import MaskedLM

PAIRS = [
    ("The teacher sells bread.", "The teacher sell bread."),
    ("My neighbour likes it.", "My neighbour like it, it."),
    ('She says "no".', 'She say "no" now.'),
]
LINES = "\tsen\twrong_sen\tphenomenon\n" + "".join(
    f"{i}\t" + "\t".join('"' + text.replace('"', '""') + '"' for text in pair) + "\tSV-#\n"
    for i, pair in enumerate(PAIRS)
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data/multiblimp/eng/data.tsv"
    path.parent.mkdir(parents=True)
    path.write_text(LINES)
    return tmp_path / "data"


def test_the_table_is_read_with_its_quotes(data: Path) -> None:
    rows = load(suites()["multiblimp"], "en", "test", data)
    assert [row.fields["choices"] for row in rows] == PAIRS
    path = data / "multiblimp/eng/data.tsv"
    path.write_text(LINES.replace("wrong_sen", "wrong"))
    with pytest.raises(UserError, match=r"data\.tsv:1: no columns sen and wrong_sen"):
        load(suites()["multiblimp"], "en", "test", data)
    path.write_text(LINES + "3\tone\n")
    with pytest.raises(UserError, match=r"data\.tsv:5: 2 columns; valid: 4 as in the header"):
        load(suites()["multiblimp"], "en", "test", data)


def test_likelihood_masks_one_sub_word_at_a_time(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal to one sequence after the other with the whole distribution, however the masks are batched."""
    lm, texts = MaskedLM(model), [text for pair in PAIRS for text in pair]
    wanted = []
    for text in texts:
        tokens = torch.tensor([BOS, *encode_pieces(lm.processor, text), EOS])
        total = 0.0
        for place in range(1, len(tokens) - 1):
            masked = tokens.clone()
            masked[place] = lm.mask_id
            positions = torch.arange(len(tokens))
            with torch.inference_mode():
                states = lm.model.encoder(masked, positions, [(1, len(tokens))])
                logits = lm.model.lm_head.logits(states[place : place + 1])[0]
            total += float(logits.double().log_softmax(0)[tokens[place]])
        wanted.append(total)
    for size in (8192, 40, 1):
        monkeypatch.setattr(likelihood, "BATCH_TOKENS", size)
        assert np.allclose(lm.scores(texts, "xx"), wanted, atol=1e-4), size
    first, second = np.array(wanted).reshape(-1, 2).T
    rows = [type("Row", (), {"fields": {"choices": pair}})() for pair in PAIRS]
    assert lm.choose_likelier(rows, "xx") == (first <= second).astype(int).tolist()
    same = [type("Row", (), {"fields": {"choices": ("The boat.", "The boat.")}})()]
    assert lm.choose_likelier(same, "xx") == [1], "a model without an opinion gets nothing"


def test_from_files_to_a_table_with_both_controls(data: Path, model: Path, tmp_path: Path) -> None:
    cfg = EvalConfig(("multiblimp",), tmp_path / "out", data, checkpoint=model)
    evaluation.run(cfg)
    scores = {s.system: s for s in read_scores(tmp_path / "out/tables/scores.json")}
    assert set(scores) == {"pretrained", "random", "majority"}
    assert scores["majority"].value == pytest.approx(200 / 3), "two right sentences are the shorter ones"
    assert {s.n for s in scores.values()} == {3}
    assert {s.lang for s in scores.values()} == {"en"}


def test_a_model_that_fills_no_masks_is_refused(
    model: Path, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = load(suites()["multiblimp"], "en", "test", data)
    copy = tmp_path / "model"
    shutil.copytree(model, copy)
    (copy / TASK_FILE).write_text("{}")
    with pytest.raises(
        UserError,
        match="model is fine-tuned and can fill no masks; valid: a pre-trained encoder with its LM head",
    ):
        EncoderBackend(copy, "pretrained").predict(None, suites()["multiblimp"], rows, "en")
    monkeypatch.setattr(model_weights, "has_decoder", lambda directory: True)
    with pytest.raises(UserError, match="it has a decoder, or is an encoder that transformers computes"):
        EncoderBackend(model, "pretrained").predict(None, suites()["multiblimp"], rows, "en")
