"""Words of a report: explained where they occur, and only there."""

from __future__ import annotations

import re

from xling.eval.report import stage


def test_the_terms_of_a_page() -> None:
    shown = stage.glossary(
        "<style>.seed{}</style><p title=nats>transfer gap over 3 seeds; controls: majority</p>"
    )
    assert re.findall("<dt>(.*?)</dt>", shown) == ["control", "transfer gap", "seed"]
    assert stage.glossary("<p>resourceful</p>") == ""
