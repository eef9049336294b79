"""Conditional generation: fine-tuning on texts to write, and models with a decoder as systems."""
