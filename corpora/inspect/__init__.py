"""Commands that look into a corpus or a file: why, sample, select."""
