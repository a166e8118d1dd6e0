"""Compile what the digest runs as machine code: `python -m crawl_platform.digest`."""

import time

from crawl_platform.digest import warm
from crawl_platform.digest.compiled import FOLDER, forget_others

if __name__ == "__main__":
    begun = time.monotonic()
    forget_others()
    warm()
    print(f"digest: machine code is in {FOLDER} ({time.monotonic() - begun:.0f} s)")  # noqa: T201
