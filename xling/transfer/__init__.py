"""Fine-tuning, prediction and translation."""
