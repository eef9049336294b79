"""Models in and out: Hugging Face and stock fairseq."""
