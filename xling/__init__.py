"""xling: multilingual pre-training and cross-lingual transfer."""
