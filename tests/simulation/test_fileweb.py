"""Folders of HTML as hosts."""

from pathlib import Path

import pytest

from crawl_platform.simulation.fileweb import FileWeb
from crawl_platform.simulation.message import Reply, Request
from crawl_platform.simulation.running import launch
from tests.simulation.wire import get


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "manual"
    (root / "sub").mkdir(parents=True)
    (root / "index.html").write_text("<h1>Manual</h1>")
    (root / "sub" / "index.html").write_text("<h1>Sub</h1>")
    (root / "a b.txt").write_text("text")
    (root / "old.html.gz").write_bytes(b"\x1f\x8b")
    (tmp_path / "secret.txt").write_text("secret")
    (root / "linked.txt").symlink_to(tmp_path / "secret.txt")
    return root


def _get(folder: Path, path: str, method: str = "GET", **headers: str) -> Reply:
    named = {k.lower().replace("_", "-"): v for k, v in headers.items()}
    return FileWeb({"m.test": folder}).reply(Request(method, "m.test", path, named, False, 1), 0.0)


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/", 200, "text/html"),
        ("/index.html?x=1", 200, "text/html"),
        ("/sub/", 200, "text/html"),
        ("/a%20b.txt", 200, "text/plain"),
        ("/old.html.gz", 200, "application/gzip"),
        ("/robots.txt", 404, "text/plain"),
        ("/none", 404, "text/plain"),
        ("/index.html/", 404, "text/plain"),
        ("/../secret.txt", 404, "text/plain"),
        ("/%2e%2e/secret.txt", 404, "text/plain"),
        ("/sub/../../secret.txt", 404, "text/plain"),
        ("/a%00b", 404, "text/plain"),
        ("/linked.txt", 200, "text/plain"),
    ],
)
def test_paths(folder: Path, path: str, status: int, kind: str) -> None:
    reply = _get(folder, path)

    assert (reply.status, dict(reply.headers)["Content-Type"]) == (status, kind)


def test_a_folder_without_slash_redirects(folder: Path) -> None:
    assert _get(folder, "/sub").headers == [("Location", "/sub/")]


def test_validators(folder: Path) -> None:
    headers = dict(_get(folder, "/").headers)

    assert _get(folder, "/", If_None_Match=headers["ETag"]).status == 304
    assert _get(folder, "/", If_Modified_Since=headers["Last-Modified"]).status == 304
    (folder / "index.html").write_text("<h1>New</h1>")
    assert _get(folder, "/", If_None_Match=headers["ETag"]).status == 200


async def test_several_folders_on_the_wire(folder: Path, tmp_path: Path) -> None:
    other = folder / "sub"
    with launch(["files", f"m.test={folder}", f"o.test={other}"], tmp_path / "log.jsonl") as running:
        web = FileWeb({"m.test": folder, "o.test": other}, running.ready.http_port)

        bodies = [(await get(running.ready, h, h.root)).body for h in web.hosts.values()]

        assert running.ready.seeds == web.seeds()
        assert bodies == [b"<h1>Manual</h1>", b"<h1>Sub</h1>"]
