"""The guides' commands are made small, not left out, and every guide and notebook takes part."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def guides() -> ModuleType:
    spec = importlib.util.spec_from_file_location("guides", ROOT / ".ci" / "guides.py")
    assert spec and spec.loader
    sys.modules["guides"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_settings_are_replaced_and_added(guides: ModuleType) -> None:
    tiny = {"pretrain": ["train.updates=4", "model.dim=32"], "eval": ["seeds=1"]}
    line = "xling pretrain data=d train.updates=2000 'a=b c'  # a comment"
    assert guides.smaller(line, tiny) == "xling pretrain data=d 'a=b c' train.updates=4 model.dim=32"
    for kept in ("xling eval list data=raw", "xling finetune mt data=d", "ls pretrain", "xling vocab size=9"):
        assert guides.smaller(kept, tiny | {"finetune": ["x=1"]}) == kept
    own = guides.smaller("xling finetune mt data=d", {"finetune": ["x=1"], "finetune mt": ["y=2"]})
    assert own == "xling finetune mt data=d y=2"


def test_blocks_of_sh_and_python_run_and_others_do_not(guides: ModuleType) -> None:
    text = "<!-- tiny vocab: size=5 -->\n```sh\nxling vocab size=9\n```\n```text\nno\n```\n```python\nprint(1)\n```\n"
    assert list(guides.blocks(text)) == [("sh", "xling vocab size=5"), ("python", "print(1)\n")]


def test_a_command_that_fails_names_its_guide(
    guides: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guides, "GUIDES", tmp_path)
    (tmp_path / "one.md").write_text("```sh\ntrue\n```\n```sh\nfalse\ntrue\n```\n")
    with pytest.raises(SystemExit, match=r"one\.md, block 2"):
        guides.run("one", tmp_path)


def test_every_guide_is_run_and_has_commands(guides: ModuleType) -> None:
    names = {path.stem for path in guides.GUIDES.glob("*.md")}
    assert names == set(guides.ORDER)
    for name in names:
        assert list(guides.blocks((guides.GUIDES / f"{name}.md").read_text(encoding="utf-8"))), name


def test_notebooks_hold_outputs_and_no_paths_of_a_machine() -> None:
    paths = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
    assert len(paths) >= 2
    for path in paths:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert sum(bool(cell.get("outputs")) for cell in cells) >= 3, path.name
        assert not re.search(r"/(tmp|home|root|work)/", path.read_text(encoding="utf-8")), path.name
