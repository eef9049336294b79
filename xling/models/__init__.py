"""Encoders, encoder-decoders and heads, registered with fairseq."""
