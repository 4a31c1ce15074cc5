"""`python -m shared ...`, which is what run.sh calls."""

import sys

from shared.commands.cli import main

sys.exit(main())
