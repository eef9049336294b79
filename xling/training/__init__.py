"""Pre-training: from a configuration to fairseq's Trainer, with its updates, logs and plans."""
