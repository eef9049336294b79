"""Files of models: published ones, and checkpoints of a running training."""
