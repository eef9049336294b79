"""Fine-tuning and prediction."""
