"""How far back each table can be read: written by upkeep before it deletes anything, obeyed by readers.

A version whose files are partly gone would fail in the middle of a query, or answer a query that needs only the
files that are left. Readers are told at the door instead.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from crawl_platform.errors import LakeError
from crawl_platform.lake.delta import sync_folder

HISTORY_NAME = "history.json"


def oldest_readable(root: Path) -> dict[str, int]:
    """Table → oldest version that can be read, of the lake at `root`; a table that isn't named has all."""
    try:
        return msgspec.json.decode((root / HISTORY_NAME).read_bytes(), type=dict[str, int])
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise LakeError(f"{root / HISTORY_NAME} is damaged: {error}") from error


def forget_before(root: Path, name: str, version: int) -> None:
    """From now on `name` can't be read at versions below `version`. Durable on return; never goes back."""
    known = oldest_readable(root)
    if version <= known.get(name, 0):
        return
    draft = root / f".{HISTORY_NAME}"
    with draft.open("wb") as file:
        file.write(msgspec.json.encode({**known, name: version}, order="sorted"))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(root / HISTORY_NAME)
    sync_folder(root)


def require_readable(root: Path, versions: Mapping[str, int]) -> None:
    """Raise `LakeError` if upkeep has let go of one of these versions."""
    oldest = oldest_readable(root)
    for name, version in sorted(versions.items()):
        if version < oldest.get(name, 0):
            raise LakeError(
                f"{name} can't be read at version {version} any more: the oldest kept is {oldest[name]} "
                "(upkeep keeps past versions for retention.history_days)"
            )
