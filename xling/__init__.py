"""xling: multilingual pre-training and cross-lingual transfer."""

from xling import compat

compat.lighten()
