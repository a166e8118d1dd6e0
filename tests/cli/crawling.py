"""A real crawl of a small site, started and steered by the commands as a person would."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crawl_platform import settings as settings_module
from crawl_platform.settings import Commit, Fetch, Politeness, Settings
from crawl_platform.simulation.running import launch

HOST = "manual.test"
TEXT = (
    "The first page says enough about its subject to be taken for an article, and this is its second clause."
)
ONE = f"<title>One</title><main><p>{TEXT}</p></main>"


class Command:
    """`crawl …` as a process, on one home."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = self.raw(*arguments)
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def raw(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """The same with what it prints as bytes."""
        command = [sys.executable, "-c", "from crawl_platform.cli import main; main()", *arguments]
        return subprocess.run([*command, "--home", str(self.home)], capture_output=True, timeout=120)

    def json(self, *arguments: str) -> Any:
        done = self(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def until(self, seconds: float, sql: str) -> list[dict[str, Any]]:
        """Rows of `sql` once there are any."""
        deadline = time.monotonic() + seconds
        while not (rows := self.json("sql", sql)):
            assert time.monotonic() < deadline, sql
            time.sleep(0.2)
        return list(rows)


@contextmanager
def small_crawl(base: Path, **sections: Any) -> Iterator[tuple[Command, str]]:
    """(commands on a crawl that has fetched the site's three pages, URL of the first)."""
    site = base / "site"
    site.mkdir()
    (site / "index.html").write_text(
        "<title>Start</title><a href=one.html>one</a><a href=two.html>two</a><a href=http://elsewhere.test/>far</a>"
    )
    (site / "one.html").write_text(ONE)
    (site / "two.html").write_text("<title>Two</title><p>second page</p>")
    with launch(["files", f"{HOST}={site}"], base / "web.log", ca_file=base / "ca.pem") as web:
        home = base / "home"
        settings_module.save(
            Settings(
                str(home),
                politeness=Politeness(host_delay=0.02, address_delay=0.02),
                fetch=Fetch(nameservers=(web.ready.nameserver,), allow_networks=("127.0.0.0/8",)),
                commit=Commit(stats_seconds=2.0),
                **sections,
            )
        )
        seeds = base / "seeds.txt"
        seeds.write_text(f"# the one site\n{web.ready.seeds[0]}\n")
        command = Command(home)
        up = command("up", "--seeds", str(seeds), "--contact", "me@example.org", "--no-dagster", "--detach")
        assert up.returncode == 0, up.stderr
        assert "1 seed host handed" in up.stdout
        try:
            command.until(60, "SELECT url FROM fetches WHERE kind = 'page' AND url LIKE '%two.html'")
            yield command, web.ready.seeds[0]
        finally:
            down = command("down")
            assert down.returncode == 0, down.stderr
