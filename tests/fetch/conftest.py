from collections.abc import AsyncIterator

import pytest_asyncio

from crawl_platform.clock import SystemClock
from crawl_platform.fetch.client import HttpClient
from tests.fetch.asking import SETTINGS


@pytest_asyncio.fixture
async def client() -> AsyncIterator[HttpClient]:
    made = HttpClient(SETTINGS, "tester/1 (+me@example.org)", SystemClock())
    yield made
    await made.close()
