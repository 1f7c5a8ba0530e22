"""``python -m lessons_lib``: see `lessons_lib.cli.main`."""

from __future__ import annotations

import sys

from lessons_lib.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
