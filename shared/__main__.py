"""`python -m shared ...`, which is what run.sh calls."""

import sys

from shared.cli import main

sys.exit(main())
