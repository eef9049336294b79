"""Ways of fine-tuning, one file each."""
