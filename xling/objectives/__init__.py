"""Pre-training objectives, one file each, registered as fairseq tasks ``xling_<name>``."""
