"""Words made of their characters: bytes, convolutions of several widths, the largest of each, highway layers.

No vector belongs to a piece any more at the input: two pieces that are spelled alike begin alike, in any language,
and a model may go on with another vocabulary. The rows of the vocabulary stay as what is predicted.

The network is Kim et al.'s: convolutions of 1 to `WIDTHS` bytes, each with the value times its width as filters, and
tanh. The largest over the piece goes through `HIGHWAYS` highway layers and a matrix to the width of the model. Mulcaire
et al. 2019 take that of ELMo, with characters of a word and 2,048 filters. They leave open what becomes of a word that
is longer than the network reads; here its end is not read. A piece here is what the vocabulary cuts; with a large one
that is a word.

Sources: Kim et al. 2016, section 2; Srivastava et al. 2015 (highway); Mulcaire et al. 2019, section 2.
"""

from collections.abc import Sequence
from typing import Any

from xling.core.settings.values import NOT_NEGATIVE
from xling.models.model_setting import ENCODER, setting
from xling.models.parts import PARTS, Part

WIDTHS, HIGHWAYS, CHAR_DIM, LONGEST = 6, 2, 16, 24
PAD, BEGIN, END, SPECIAL = 0, 257, 258, 259
FIRST_PIECE = 4


@PARTS.register("char_cnn")
class CharCnn(Part):
    """filters a byte of width of a character network that makes word vectors, 0 for a vector of each piece."""

    setting = setting(0, NOT_NEGATIVE, only=ENCODER)
    has_pieces = False

    def attach(self, side: Any, value: int) -> None:
        """Put the network in place of the embeddings, whose rows stay for the output."""
        side.tokens = _module(side.tokens, value)


def spelled(names: Sequence[str]) -> list[list[int]]:
    """The numbers of the bytes of each symbol of a dictionary, `LONGEST` of them; ``<mask>`` is last.

    Special tokens have a number of their own, so that ``<s>`` written in a text does not begin a sentence.
    """
    rows = []
    for index, name in enumerate(names):
        is_special = index < FIRST_PIECE or index == len(names) - 1
        inside = [SPECIAL + min(index, FIRST_PIECE)] if is_special else [1 + byte for byte in name.encode()]
        row = [BEGIN, *inside[: LONGEST - 2], END]
        rows.append(row + [PAD] * (LONGEST - len(row)))
    return rows


def _module(rows: Any, filters: int) -> Any:
    """The network; ``rows`` is the embedding whose weight stays."""
    import torch
    from torch import nn

    class CharWords(nn.Module):
        """Ids of any shape -> vectors; ``weight`` are the rows of what is predicted."""

        bytes: Any

        def __init__(self) -> None:
            super().__init__()
            self.num_embeddings, self.embedding_dim = rows.weight.shape
            self.padding_idx, self.weight = rows.padding_idx, rows.weight
            self.register_buffer("bytes", torch.zeros(self.num_embeddings, LONGEST, dtype=torch.int16))
            self.chars = nn.Embedding(SPECIAL + FIRST_PIECE + 1, CHAR_DIM, padding_idx=PAD)
            sizes = [filters * width for width in range(1, WIDTHS + 1)]
            self.convolutions = nn.ModuleList(nn.Conv1d(CHAR_DIM, n, w) for w, n in enumerate(sizes, 1))
            self.highways = nn.ModuleList(nn.Linear(sum(sizes), 2 * sum(sizes)) for _ in range(HIGHWAYS))
            self.out = nn.Linear(sum(sizes), self.embedding_dim)
            for highway in self.highways:
                nn.init.constant_(
                    highway.get_parameter("bias")[: sum(sizes)], -2.0
                )  # at first most is carried over

        def spell(self, names: Sequence[str]) -> None:
            """Take over the spelling of the vocabulary."""
            assert len(names) == self.num_embeddings, (len(names), self.num_embeddings)
            self.bytes.copy_(torch.tensor(spelled(names)))

        def forward(self, ids: Any) -> Any:
            kinds, places = ids.unique(return_inverse=True)
            x = self.chars(self.bytes[kinds].long()).transpose(1, 2)
            result = [torch.tanh(convolution(x).amax(-1)) for convolution in self.convolutions]
            x = torch.cat(result, -1)
            for highway in self.highways:
                gate, new = highway(x).chunk(2, -1)
                x = torch.lerp(x, torch.relu(new), torch.sigmoid(gate))
            return self.out(x)[places]

    return CharWords()
