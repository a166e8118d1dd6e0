"""Hosts whose harm is in the name service: rebinding, private answers, no answers; and poisoned seeds."""

import asyncio
from functools import partial

from crawl_platform.simulation.hostile import names
from crawl_platform.simulation.hostile.misbehaviour import Misbehaviour
from crawl_platform.simulation.hostile.visit import DECOYS, Visit, page

_row = partial(Misbehaviour, "dns")
_seed = partial(Misbehaviour, "seeds")
_UNSAFE = ("unsafe_address",)
_ROBOTS = "/robots.txt"
_PAGES = 8


async def _slow_pages(visit: Visit) -> None:
    """Pages that take long enough for the DNS answer to run out between them."""
    links = "".join(f'<a href="/{number}">{number}</a>' for number in range(_PAGES))
    await asyncio.sleep(0.4)
    await visit.answer(page(visit.path, links))


DNS = (
    _row(
        "dns-rebinding",
        "public at the first question, private at the next",
        ("ok", *_UNSAFE),
        _slow_pages,
        names=names.rebinding,
        watched="",
        seen="unsafe_address",
        most=20,
    ),
    _row("dns-private", "resolves to 10.0.0.1", _UNSAFE, names=names.private, watched=_ROBOTS),
    _row(
        "dns-inward",
        "resolves to a private address that listens",
        _UNSAFE,
        names=names.inward,
        watched=_ROBOTS,
    ),
    _row("dns-metadata", "resolves to the metadata service", _UNSAFE, names=names.metadata, watched=_ROBOTS),
    _row("dns-mixed", "one good address, one private", _UNSAFE, names=names.mixed, watched=_ROBOTS),
    _row("dns-mapped", "a private address mapped into IPv6", _UNSAFE, names=names.mapped, watched=_ROBOTS),
    _row("dns-nat64", "a private address behind NAT64", _UNSAFE, names=names.translated, watched=_ROBOTS),
    _row(
        "dns-crowded",
        "249 addresses over TCP, the last private",
        _UNSAFE,
        names=names.crowded,
        watched=_ROBOTS,
    ),
    _row("dns-missing", "the name does not exist", ("no_such_host",), names=names.missing, watched=_ROBOTS),
    _row("dns-failing", "the name server fails", ("dns_failure",), names=names.failing, watched=_ROBOTS),
    _row("dns-refusing", "the name server refuses", ("dns_failure",), names=names.refusing, watched=_ROBOTS),
    _row("dns-mute", "the name server says nothing", ("dns_timeout",), names=names.mute, watched=_ROBOTS),
    _row(
        "dns-astray",
        "the answer speaks of another name",
        ("dns_timeout",),
        names=names.astray,
        watched=_ROBOTS,
    ),
    _row(
        "dns-alias-loop",
        "a CNAME to itself",
        ("dns_failure", "no_such_host"),
        names=names.looping,
        watched=_ROBOTS,
    ),
    _row(
        "dns-moving",
        "another address at each question, TTL 0",
        ("ok",),
        _slow_pages,
        names=names.moving,
        most=20,
    ),
)

SEEDS = (
    _seed(
        "seed-private",
        "a private address as seed",
        _UNSAFE,
        watched=_ROBOTS,
        seed=f"http://{DECOYS[0]}:{{http}}/",
    ),
    _seed(
        "seed-decimal",
        "a private address as one number",
        _UNSAFE,
        watched=_ROBOTS,
        seed="http://2136014850:{http}/",
    ),
    _seed(
        "seed-localhost",
        "localhost as seed",
        ("unsafe_address", "no_such_host"),
        watched=_ROBOTS,
        seed="http://localhost:{http}/",
    ),
    _seed(
        "seed-mapped",
        "a private address in IPv6 as seed",
        _UNSAFE,
        watched=_ROBOTS,
        seed="http://[::ffff:127.81.0.1]:{http}/",
    ),
    _seed(
        "seed-metadata",
        "the metadata service as seed",
        _UNSAFE,
        watched=_ROBOTS,
        seed="http://169.254.169.254/",
    ),
)
