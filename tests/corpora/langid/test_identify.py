"""Language identification: any text has the same answer alone and among others."""

from __future__ import annotations

import random

import pytest

from tests.corpora.stages.test_langid import TEXTS
from xling.corpora.langid.identify import Ensemble, body_of

ODD = (
    "",
    " ",
    "a",
    "🙂 ok 🙂🙂",
    "é",
    "x\x00y \x0bz",
    "<a> b>",
    "__label__en habari",
    "ein </s> two",
    "12 - 34",
    "habari \ud83d za leo",
)


def texts() -> list[str]:
    """Return texts of all lengths, in several scripts and mixed."""
    random.seed(0)
    words = " ".join(TEXTS.values()).split()
    mixed = [" ".join(random.choices(words, k=random.randint(1, 60))) for _ in range(100)]
    return [*TEXTS.values(), *mixed, *ODD]


def test_a_text_has_the_same_answer_in_any_company() -> None:
    every = texts()
    together = Ensemble().ranks(every)
    assert together[::-1] == Ensemble().ranks(every[::-1])
    for text, ranking in zip(every, together, strict=True):
        assert ranking == Ensemble().ranks([text])[0]
        alone = Ensemble().rank(text)
        assert [code for code, _ in alone[:1]] == [code for code, _ in ranking[:1]], text
        assert alone[:1] == [(code, pytest.approx(score, abs=1e-4)) for code, score in ranking[:1]]
    assert Ensemble().ranks([]) == []


# FastText alone knows Central Kurdish, Cornish and Eastern Mari, py3langid Oromo, the n-grams the others; of the
# relatives of those that the other models know, they know little.
_KNOWN_TO_ONE = {
    "ban": "Tugas niki kedah puputang titiang benjang semeng.",
    "ckb": "گەڕاندنەوەی ھەموو گۆڕانکارییەکان لە لایەن بەکارھێنەر",
    "cv": "Вӗсен йышӗнче ҫамрӑксем пур.",
    "kw": "Res yw dhymm dybri yn lent.",
    "mhr": "Тудо эргыжлан пӱкеным ыштен пуэн.",
    "om": "Barattoonni mana barumsaa keessatti afaan isaanii barachuu qabu jedhan.",
    "ti": "እቲ ቆልዓ ናብ ቤት ትምህርቲ ኸይዱ መጽሓፍ የንብብ ኣሎ።",
}


@pytest.mark.parametrize("code", _KNOWN_TO_ONE)
def test_models_that_lack_a_language_do_not_outvote_the_one_that_knows_it(code: str) -> None:
    (found, score), *_ = Ensemble().rank(body_of(_KNOWN_TO_ONE[code]))
    assert found == code and score > 0.5


def test_a_model_that_is_not_asked_does_not_lower_the_score() -> None:
    """The n-grams know little Xhosa and take it for Zulu."""
    (found, score), *_ = Ensemble().rank(body_of("Abantwana bafunda iincwadi zabo esikolweni yonke imihla."))
    assert found == "xh" and score > 0.5
