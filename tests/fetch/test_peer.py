"""The address that a socket is really connected to decides, whatever a name server has said before."""

import asyncio
import socket

import pytest

from crawl_platform.clock import SystemClock
from crawl_platform.errors import SiteError
from crawl_platform.fetch.client import HttpClient
from crawl_platform.fetch.connections import Connections
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.settings import Fetch
from tests.fetch.asking import Writes, get
from tests.fetch.servers import answers, reply, serving

PUBLIC = Fetch(connect_timeout=1.0)
"""As in production: loopback is not allowed."""


async def test_a_private_address_is_refused_before_a_byte_is_sent() -> None:
    client, writes = HttpClient(PUBLIC, "tester", SystemClock()), Writes()
    async with serving(answers(reply(body=b"secret"))) as server:
        response = await get(client, server.url(), writes)
        await asyncio.sleep(0.02)
    await client.close()

    assert (response.outcome, response.sent, response.body) == (Outcome.UNSAFE_ADDRESS, False, b"")
    assert (writes.count, server.heads) == (0, [])


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_rebinding_between_the_check_and_the_connection_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """The pinned address is public and was checked; the connection ends up at home all the same."""
    client = HttpClient(PUBLIC, "tester", SystemClock())
    async with serving(answers(reply(body=b"secret"))) as server:
        opened = Connections._open

        async def rebound(self: Connections, family: int, where: tuple[str, int]) -> socket.socket:
            assert where[0] == "93.184.215.14"
            return await opened(self, family, ("127.0.0.1", server.port))

        monkeypatch.setattr(Connections, "_open", rebound)
        response = await get(client, server.url(scheme=scheme), address="93.184.215.14")
        await asyncio.sleep(0.02)
    await client.close()

    assert (response.outcome, response.sent, server.heads) == (Outcome.UNSAFE_ADDRESS, False, [])
    assert "127.0.0.1" in response.detail


async def test_ablation_without_the_look_at_the_peer_the_secret_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Connections, "check_peer", lambda self, sock: None)
    client = HttpClient(PUBLIC, "tester", SystemClock())
    async with serving(answers(reply(body=b"secret"))) as server:
        response = await get(client, server.url())
    await client.close()

    assert response.body == b"secret"


async def test_only_the_networks_that_a_setting_names_are_allowed() -> None:
    client = HttpClient(Fetch(allow_networks=("127.0.0.0/30",)), "tester", SystemClock())
    with socket.create_server(("127.0.0.9", 0)) as elsewhere:
        near = await get(client, "http://site.test:1/", address="127.0.0.1")
        far = await get(client, f"http://site.test:{elsewhere.getsockname()[1]}/", address="127.0.0.9")
    await client.close()

    assert (near.outcome, far.outcome) == (Outcome.CONNECT_REFUSED, Outcome.UNSAFE_ADDRESS)


async def test_a_socket_that_is_closed_already_is_an_outcome(client: HttpClient) -> None:
    with socket.socket() as sock, pytest.raises(SiteError) as error:
        client._connections.check_peer(sock)

    assert error.value.outcome == Outcome.CONNECT_REFUSED
