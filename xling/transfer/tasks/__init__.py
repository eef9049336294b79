"""Fine-tuning tasks, one file each."""
