"""Storage that all builds share: shards, slices of arrays, sorting on disk, downloads."""
