"""Pure functions on token arrays, batching and the resumable iterator."""
