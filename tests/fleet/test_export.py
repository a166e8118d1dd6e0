"""An export is whole or not there, goes on where it was cut off, and says nothing that is not known."""

import gzip
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import zstandard
from warcio.archiveiterator import ArchiveIterator

from crawl_platform.clock import ManualClock
from crawl_platform.errors import ConfigurationError, LakeError
from crawl_platform.fleet import export
from crawl_platform.fleet.export import Export, Progress, Selection
from crawl_platform.lake.lake import Lake
from tests.lake.samples import NOON, commit, rows

PAGES = 25


def body(number: int) -> bytes:
    return f"<p>page {number}</p>".encode()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Pages of two days and two hosts; every fifth was cut, every second lies as gzip."""
    lake = Lake(tmp_path / "lake")
    lake.create(4)
    pages, fetches = [], []
    for number in range(PAGES):
        at = NOON + timedelta(days=number % 2, seconds=number)
        stored = gzip.compress(body(number)) if number % 2 else zstandard.compress(body(number))
        facts: dict[str, Any] = {"fetch_id": f"f-{number}", "date": at.date(), "host": f"h{number % 2}.test"}
        facts["url"] = f"http://h{number % 2}.test/{number}"
        page = {"body": stored, "body_encoding": "gzip" if number % 2 else "zstd", "fetched_at": at}
        page |= {"content_type": "text/html", "truncated": number % 5 == 0}
        pages.append(rows("pages", 1, **facts, **page))
        fetched = {"started_at": at, "status": 200, "address": "192.0.2.1", "duration_ms": 12.3}
        fetches.append(rows("fetches", 1, **facts, **fetched))
    commit(lake, "pages", pa.concat_tables(pages), 1)
    commit(lake, "fetches", pa.concat_tables(fetches), 1)
    return lake


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "BATCH", 4)


def work(lake: Lake, file: Path, selection: Selection | None = None) -> Export:
    return Export(lake, selection or Selection(), file, "crawl/0.1 (+me@example.org)", ManualClock())


def records(file: Path) -> list[Any]:
    """(type, headers, block) of every record; digests are checked."""
    with file.open("rb") as archive:
        return [
            (record.rec_type, dict(record.rec_headers.headers), record.content_stream().read())
            for record in ArchiveIterator(archive, check_digests="raise")
        ]


def test_every_version_is_a_resource_with_its_decoded_body(tmp_path: Path, lake: Lake) -> None:
    file = tmp_path / "all.warc.gz"

    done = work(lake, file).run(lambda _: None)

    found = records(file)
    resources = {h["WARC-Target-URI"]: (h, block) for kind, h, block in found if kind == "resource"}
    assert done.pages == len(resources) == PAGES
    assert done.size == file.stat().st_size
    for number in range(PAGES):
        headers, block = resources[f"http://h{number % 2}.test/{number}"]
        assert block == body(number)
        assert headers["Content-Type"] == "text/html"
        assert headers.get("WARC-Truncated") == ("length" if number % 5 == 0 else None)
        assert headers["WARC-IP-Address"] == "192.0.2.1"
    assert resources["http://h1.test/1"][0]["WARC-Date"] == "2026-12-01T12:00:01.123456Z"


def test_no_record_claims_headers_that_were_not_kept(tmp_path: Path, lake: Lake) -> None:
    file = tmp_path / "all.warc.gz"
    work(lake, file).run(lambda _: None)

    found = records(file)

    assert {kind for kind, _, _ in found} == {"warcinfo", "resource", "metadata"}
    assert found[0][0] == "warcinfo"
    assert b"response headers were not kept" in found[0][2]
    about = {h["WARC-Refers-To"]: block for kind, h, block in found if kind == "metadata"}
    assert set(about) == {h["WARC-Record-ID"] for kind, h, _ in found if kind == "resource"}
    assert all(b"status: 200\r\n" in block for block in about.values())


def test_each_record_is_a_gzip_member_of_its_own(tmp_path: Path, lake: Lake) -> None:
    file = tmp_path / "all.warc.gz"
    work(lake, file).run(lambda _: None)

    with file.open("rb") as archive:
        archive_records = ArchiveIterator(archive)
        offsets = [archive_records.get_record_offset() for _ in archive_records]

    data = file.read_bytes()
    assert len(offsets) == 1 + 2 * PAGES
    assert all(data[offset : offset + 2] == b"\x1f\x8b" for offset in offsets)


@pytest.mark.parametrize(
    ("selection", "numbers"),
    [
        (Selection(hosts=("h1.test",)), [n for n in range(PAGES) if n % 2]),
        (Selection(urls=("http://h0.test/4", "http://h1.test/7")), [4, 7]),
        (Selection(since=NOON + timedelta(days=1)), [n for n in range(PAGES) if n % 2]),
        (Selection(until=NOON + timedelta(seconds=3)), [0, 2]),
        (Selection(hosts=("nowhere.test",)), []),
    ],
)
def test_pages_are_chosen_by_host_url_and_time(
    tmp_path: Path, lake: Lake, selection: Selection, numbers: list[int]
) -> None:
    file = tmp_path / "some.warc.gz"

    done = work(lake, file, selection).run(lambda _: None)

    blocks = [block for kind, _, block in records(file) if kind == "resource"]
    assert sorted(blocks) == sorted(map(body, numbers))
    assert done.pages == len(numbers)


class Interrupted(Exception):
    pass


def cut_off(export_: Export, after: int) -> None:
    def stop(pages: int) -> None:
        if pages >= after:
            raise Interrupted

    with pytest.raises(Interrupted):
        export_.run(stop)


@pytest.mark.parametrize(
    "after", [pytest.param(1, marks=pytest.mark.long), 12, pytest.param(20, marks=pytest.mark.long)]
)
def test_an_export_that_was_cut_off_goes_on_and_ends_the_same(tmp_path: Path, lake: Lake, after: int) -> None:
    whole, file = tmp_path / "x" / "a.warc.gz", tmp_path / "a.warc.gz"
    whole.parent.mkdir()
    work(lake, whole).run(lambda _: None)
    cut_off(work(lake, file), after)
    assert not file.exists()
    with file.with_name("a.warc.gz.part").open("ab") as part:
        part.write(b"half a record that the power cut off")

    done = work(lake, file).run(lambda _: None)

    assert done.resumed >= after
    assert file.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.warc.gz", "lake", "x"]


def test_what_is_crawled_meanwhile_is_not_mixed_in(tmp_path: Path, lake: Lake) -> None:
    file = tmp_path / "a.warc.gz"
    cut_off(work(lake, file), 4)
    new = rows("pages", 1, fetch_id="late", url="http://h0.test/late", body=b"late", body_encoding="identity")
    commit(lake, "pages", new, 2)

    done = work(lake, file).run(lambda _: None)

    assert done.pages == PAGES
    assert "http://h0.test/late" not in {h.get("WARC-Target-URI") for _, h, _ in records(file)}


def test_a_part_of_another_export_is_not_gone_on_with(tmp_path: Path, lake: Lake) -> None:
    file = tmp_path / "a.warc.gz"
    cut_off(work(lake, file), 4)
    other = work(lake, file, Selection(hosts=("h1.test",)))

    with pytest.raises(ConfigurationError, match="--restart"):
        other.run(lambda _: None)

    other.forget()
    assert other.run(lambda _: None).pages == PAGES // 2


def test_versions_that_are_gone_are_told_and_nothing_is_mixed(tmp_path: Path, lake: Lake) -> None:
    file = tmp_path / "a.warc.gz"
    cut_off(work(lake, file), 4)
    note = file.with_name("a.warc.gz.part.json")
    progress = msgspec.json.decode(note.read_bytes(), type=Progress)
    progress.versions["pages"] = 10_000
    note.write_bytes(msgspec.json.encode(progress))

    with pytest.raises(LakeError, match="start over with --restart"):
        work(lake, file).run(lambda _: None)


def test_a_data_file_that_is_gone_is_told_in_a_line(tmp_path: Path, lake: Lake) -> None:
    for data_file in lake.path("pages").rglob("*.parquet"):
        data_file.unlink()

    with pytest.raises(LakeError, match="the lake can't be read"):
        work(lake, tmp_path / "a.warc.gz").run(lambda _: None)


def test_a_damaged_body_is_named_and_the_file_does_not_appear(tmp_path: Path, lake: Lake) -> None:
    bad = rows("pages", 1, fetch_id="f-bad", body=b"\x1f\x8b no gzip", body_encoding="gzip", date=NOON.date())
    commit(lake, "pages", bad, 2)
    file = tmp_path / "a.warc.gz"

    with pytest.raises(LakeError, match="f-bad"):
        work(lake, file).run(lambda _: None)

    assert not file.exists()
