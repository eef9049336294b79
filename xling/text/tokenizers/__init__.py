"""Tokenizers of other programs behind the interface of a SentencePiece model."""
