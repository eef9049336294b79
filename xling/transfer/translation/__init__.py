"""Translation: supervised and unsupervised training, decoding, back-translation."""
