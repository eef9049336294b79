"""Word alignment of sentence pairs: ``xling align``."""
