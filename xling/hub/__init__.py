"""Import and export of models: Hugging Face and stock fairseq."""
