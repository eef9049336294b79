"""Streaming and barrier stages, one file each."""
