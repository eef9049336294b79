"""The commands of the reproductions, as entry points name them; nothing else is imported here."""

from xling.core.commands.stage_type import Stage

ALTERED = Stage(
    "corpus altered",
    config="xling.papers.altered:AlteredConfig",
    run="xling.papers.altered:run",
    help="write text of one language beside a copy in other letters or another order, or a real language",
)
PAIR = Stage(
    "analyse pair",
    config="xling.papers.pair:PairConfig",
    run="xling.papers.pair:run",
    positional="checkpoint",
    reads="checkpoint text",
    help="score how much of its space a model of two languages shares: sentences, words, transfer",
)
BITS = Stage(
    "analyse bits",
    config="xling.papers.bits_per_character_settings:BitsConfig",
    run="xling.papers.bits_per_character:run",
    positional="checkpoint",
    reads="checkpoint",
    check="xling.papers.bits_per_character_settings:check",
    help="measure the loss of a forward and backward language model in bits a character",
)
GRID = Stage(
    "analyse grid",
    config="xling.papers.grid:GridConfig",
    run="xling.papers.grid:run",
    reads="runs",
    help="gather the scores of many small models into a table, and say which claims hold",
)
WATCH = Stage(
    "watch",
    config="xling.papers.watch:WatchConfig",
    run="xling.papers.watch:run",
    positional="checkpoints",
    help="draw how retrieval, loss and transfer grow over the updates of a training, by language",
    extra="report",
)
