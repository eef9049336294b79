"""Sources of documents, one file each, chosen by the scheme of a URI: see `xling.corpora.sources.source`."""
