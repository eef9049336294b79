"""A synthetic closed world rendered in several languages."""
