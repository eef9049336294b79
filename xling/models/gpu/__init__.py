"""Kernels for a GPU, which need Triton: fairseq imports every module of `xling.models`, but not those below it."""
