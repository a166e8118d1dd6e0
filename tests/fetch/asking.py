"""The caller's side of the client."""

from crawl_platform.fetch.client import HttpClient, Response
from crawl_platform.settings import Fetch

SETTINGS = Fetch(
    connect_timeout=0.3,
    tls_timeout=0.6,
    first_byte_timeout=0.3,
    head_timeout=0.5,
    read_timeout=0.3,
    total_timeout=0.6,
    header_cap=8_192,
    allow_networks=("127.0.0.0/8",),
)
CAP = 10_000


class Writes:
    """The caller's side of `on_write`."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


async def get(
    client: HttpClient,
    url: str,
    writes: Writes | None = None,
    cap: int = CAP,
    address: str = "127.0.0.1",
) -> Response:
    return await client.get(url, "site.test", address, on_write=writes or Writes(), headers={}, cap=cap)
