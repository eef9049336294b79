"""The door for ``fairseq-train --user-dir xling``: fairseq imports every module of this folder."""
