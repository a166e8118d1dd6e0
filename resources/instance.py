"""A crawl's own Dagster instance: its `dagster.yaml`, its workspace, and how to start the UI and the daemon.

The instance lives in `<home>/dagster`. The demo keeps everything in SQLite; production runs on Postgres
(SQLite locks under concurrency), whose URL comes from the environment and never stands in a file.
"""

import os
import sys
import tempfile
from pathlib import Path

import xxhash

from crawl_platform.settings import Settings

POSTGRES_VARIABLE = "CRAWL_DAGSTER_POSTGRES_URL"

WORKSPACE = """\
load_from:
  - grpc_server:
      socket: {socket}
      location_name: crawl
"""

LONGEST_SOCKET_PATH = 100
"""The kernel allows 107 bytes."""

COMMON = """\
telemetry:
  enabled: false
nux:
  enabled: false
freshness:
  enabled: true
run_coordinator:
  module: dagster.core.run_coordinator
  class: QueuedRunCoordinator
  config:
    dequeue_interval_seconds: {dequeue}
concurrency:
  runs:
    max_concurrent_runs: 2
  pools:
    default_limit: 1
run_monitoring:
  enabled: true
  start_timeout_seconds: 120
  max_runtime_seconds: {longest_run}
  free_slots_after_run_end_seconds: 60
retention:
  schedule:
    purge_after_days: {keep_days}
  sensor:
    purge_after_days:
      skipped: {keep_skipped_days}
      failure: {keep_days}
      success: {keep_days}
"""

POSTGRES = f"""\
storage:
  postgres:
    postgres_url:
      env: {POSTGRES_VARIABLE}
"""


def write_dagster_home(settings: Settings, *, postgres: bool = False) -> Path:
    """Write `dagster.yaml` and `workspace.yaml` for this crawl and return the folder (DAGSTER_HOME).

    With `postgres`, Dagster's storage is the database that `CRAWL_DAGSTER_POSTGRES_URL` names.
    """
    home = settings.root / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    (home / "dagster.yaml").write_text(instance_config(settings.orchestration.profile, postgres))
    (home / "workspace.yaml").write_text(WORKSPACE.format(socket=code_socket(settings)))
    return home


def instance_config(profile: str, postgres: bool) -> str:
    """Text of `dagster.yaml` for a profile."""
    demo = profile == "demo"
    text = COMMON.format(
        dequeue=1 if demo else 5,
        longest_run=600 if demo else 21_600,
        keep_days=1 if demo else 14,
        keep_skipped_days=1,
    )
    return text + (POSTGRES if postgres else "")


def code_socket(settings: Settings) -> Path:
    """Where the code server of this crawl listens: always the same place for the same home."""
    socket = settings.root / "run" / "code.sock"
    if len(os.fsencode(socket)) <= LONGEST_SOCKET_PATH:
        return socket
    return Path(tempfile.gettempdir()) / f"crawl-{xxhash.xxh3_64_hexdigest(os.fsencode(settings.root))}.sock"


def dagster_command(settings: Settings, port: int) -> tuple[list[str], dict[str, str]]:
    """Arguments and extra environment that start code server, daemon and a webserver on 127.0.0.1:`port`.

    One process that owns the other three: SIGINT or SIGTERM ends all (`resources/launcher.py`). Its own
    output is a log. The webserver has no authentication: it is bound to loopback, and a proxy in front of
    it has to ask who comes.
    """
    home = write_dagster_home(settings)
    socket = code_socket(settings)
    socket.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "resources.launcher", str(socket), str(port)]
    environment = {"DAGSTER_HOME": str(home), "CRAWL_HOME": str(settings.root)}
    # Every run is a new process: without compiled bytecode on disk each would compile all of Dagster again.
    return command, {**environment, "PYTHONDONTWRITEBYTECODE": ""}
