"""Optimiser and learning rate schedules."""
