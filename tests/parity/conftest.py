"""The tiny corpus and the trainers of the tests of objectives."""

from tests.objectives.conftest import bitext, build

__all__ = ["bitext", "build"]
