"""``python -m xling``: the command ``xling``."""

import sys

from xling.cli import main

sys.exit(main())
