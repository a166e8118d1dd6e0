"""Where a process of the crawl writes its log: `logs/<name>.log`, rotated, and the console where there is one."""

import logging
import logging.handlers

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
