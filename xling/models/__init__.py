"""Encoders, encoder-decoders and their output heads, registered with fairseq."""
