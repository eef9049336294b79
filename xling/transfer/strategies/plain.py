"""The loss of the labels alone."""

from xling.transfer.strategy import STRATEGIES, Strategy

STRATEGIES.add(Strategy.name, Strategy)
