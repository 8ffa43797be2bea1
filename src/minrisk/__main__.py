"""`python -m minrisk`."""

import sys

from minrisk.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
