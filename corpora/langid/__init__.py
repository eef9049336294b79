"""Language identification of texts."""
