"""`python -m pcfgnat` is the command `pcfgnat`."""

import sys

from pcfgnat.cli import main

if __name__ == "__main__":
    sys.exit(main())
