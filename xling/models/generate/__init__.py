"""Generation of text by a model with a decoder."""
