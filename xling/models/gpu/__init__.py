"""GPU kernels, which need Triton; in a subpackage because fairseq imports every module of `xling.models`."""
