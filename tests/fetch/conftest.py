import ssl
from collections.abc import AsyncIterator
from functools import cache

import pytest
import pytest_asyncio

from crawl_platform.clock import SystemClock
from crawl_platform.fetch import tls
from crawl_platform.fetch.client import HttpClient
from crawl_platform.settings import Fetch
from tests.fetch.asking import SETTINGS

read_authorities = cache(tls.context)
"""The system's authorities, read once: that takes longer than most tests here."""


def authorities(settings: Fetch) -> ssl.SSLContext:
    return read_authorities(settings)


@pytest.fixture(autouse=True)
def _authorities_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "context", authorities)


@pytest_asyncio.fixture
async def client() -> AsyncIterator[HttpClient]:
    made = HttpClient(SETTINGS, "tester/1 (+me@example.org)", SystemClock())
    yield made
    await made.close()
