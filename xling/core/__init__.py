"""Foundations without torch or fairseq: languages, manifests, registries, configuration."""
