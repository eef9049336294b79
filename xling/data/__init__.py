"""Pure functions on token arrays, batching, and the mixing of languages."""
