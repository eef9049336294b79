"""Text as every layer reads it: documents, vocabularies, pairs, dictionaries, n-gram models and shards."""
