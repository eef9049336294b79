"""The tasks that a model is fine-tuned on, one file each."""
