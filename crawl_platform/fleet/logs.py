"""Where a process of the crawl writes its log: `logs/<name>.log`, rotated, and the console where there is one.

What it prints besides, and all that Dagster says, goes to `logs/<name>.out`; the supervisor rotates that.
"""

import logging
import logging.handlers
import os
import shutil
from pathlib import Path

from crawl_platform.settings import Settings


def log_to(settings: Settings, name: str, *, console: bool = False) -> None:
    """Send the log of this process to its file, and with `console` to standard error too."""
    folder = settings.root / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    rotated = logging.handlers.RotatingFileHandler(
        folder / f"{name}.log", maxBytes=settings.fleet.log_bytes, backupCount=settings.fleet.log_files
    )
    handlers: list[logging.Handler] = [rotated, *([logging.StreamHandler()] if console else [])]
    for handler in handlers:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=handlers)
    logging.getLogger("nats").setLevel(logging.CRITICAL)


def rotate_outputs(folder: Path, limit: int) -> list[str]:
    """Cut off every `.out` of more than `limit` bytes, and keep what it had as `.out.1`; returns which. Its writer
    has it open, so it is copied and emptied: what is printed in between is lost."""
    rotated = []
    for path in sorted(folder.glob("*.out")):
        if path.stat().st_size > limit:
            shutil.copyfile(path, path.with_name(path.name + ".1"))
            os.truncate(path, 0)
            rotated.append(path.name)
    return rotated
