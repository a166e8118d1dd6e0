"""Where a URL leads, and the head that asks for it."""

import pytest

from crawl_platform.fetch.request import Target, head_of, target_of


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://a.test/", Target(True, "a.test", 443, "a.test", "/")),
        ("http://a.test/x?y=1", Target(False, "a.test", 80, "a.test", "/x?y=1")),
        ("http://a.test:8080/", Target(False, "a.test", 8080, "a.test:8080", "/")),
        ("https://a.test:443/", Target(True, "a.test", 443, "a.test", "/")),
        ("https://a.test:80/", Target(True, "a.test", 80, "a.test:80", "/")),
        ("https://a.test?q", Target(True, "a.test", 443, "a.test", "/?q")),
        ("https://a.test", Target(True, "a.test", 443, "a.test", "/")),
        ("https://a.test./", Target(True, "a.test", 443, "a.test", "/")),
        ("http://[::1]:81/", Target(False, "::1", 81, "[::1]:81", "/")),
        ("http://a_b.test/?u=http://c.test:1/@x", Target(False, "a_b.test", 80, "a_b.test", "/?u=http://c.test:1/@x")),
    ],
)  # fmt: skip
def test_where_a_url_leads(url: str, target: Target) -> None:
    assert target_of(url) == target


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.test/", "https:///x", "https://a.test:99999/", "https://a.test:0/", "http://a.test/\r\nX: y",
        "http://a.test/ b", "http://me@a.test/", "http://a.test/#part", "http://a.test\\b/", "http://é.test/", "http://[x]/",
        "http://./", "a.test",
    ],
)  # fmt: skip
def test_no_request_is_made_of_anything_else(url: str) -> None:
    with pytest.raises(ValueError, match=r"no URL|no host"):
        target_of(url)


def test_the_head_names_path_and_host_first() -> None:
    head = head_of(target_of("https://a.test:8443/x?y"), {"Accept": "*/*", "If-None-Match": '"é"'})

    assert (
        head == 'GET /x?y HTTP/1.1\r\nHost: a.test:8443\r\nAccept: */*\r\nIf-None-Match: "é"\r\n\r\n'.encode()
    )


@pytest.mark.parametrize("value", ['"a"\r\nX: y', "a\nb", "a\0b"])
def test_no_header_can_end_its_line(value: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        head_of(target_of("https://a.test/"), {"If-None-Match": value})
