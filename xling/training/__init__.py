"""Pre-training: from a configuration to fairseq's Trainer, its updates, logs and plans."""
