"""Text types shared by all layers: documents, vocabularies, pairs, dictionaries, n-gram models and shards."""
