"""`python -m crawl_platform.simulation synthetic|files|hostile …`: serve a web on loopback until told to stop."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from crawl_platform.clock import SystemClock
from crawl_platform.simulation.fileweb import FileWeb
from crawl_platform.simulation.hostile import running as hostile
from crawl_platform.simulation.running import Options, Ready, serve
from crawl_platform.simulation.web import SyntheticWeb


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, serve, and print one JSON line (`Ready`) when the web answers."""
    args = _parser().parse_args(arguments)
    clock = SystemClock()
    if args.started_at is None:
        args.started_at = clock.now()
    log = Path(args.log).resolve()
    ca_file = Path(args.ca_file).resolve() if args.ca_file else log.with_suffix(".ca.pem")
    options = Options(log, ca_file, args.http_port, args.https_port, args.ttl, _overrides(args.override))

    def ready(nameserver: str, http_port: int, https_port: int, seeds: list[str]) -> None:
        line = Ready(
            nameserver=nameserver,
            http_port=http_port,
            https_port=https_port,
            ca_file=str(ca_file),
            log=str(log),
            seeds=seeds,
            pid=os.getpid(),
            started_at=args.started_at,
            **(
                {"seed": args.seed, "pace": args.pace, "scale": args.scale} if args.web == "synthetic" else {}
            ),
        )
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        sys.stdout.flush()

    if args.web == "hostile":
        asyncio.run(hostile.serve(args.names, options, clock, ready))
    else:
        build = _synthetic(args) if args.web == "synthetic" else _files(args)

        def web_ready(nameserver: str, http_port: int, https_port: int) -> None:
            ready(nameserver, http_port, https_port, build(http_port, https_port).seeds())

        asyncio.run(serve(build, options, clock, web_ready))


def _synthetic(args: argparse.Namespace) -> Callable[[int, int], SyntheticWeb]:
    return lambda http, https: SyntheticWeb(args.seed, args.started_at, args.pace, args.scale, http, https)


def _files(args: argparse.Namespace) -> Callable[[int, int], FileWeb]:
    pairs = (item.partition("=") for item in args.folders)
    folders = {name: Path(folder) for name, _, folder in pairs}
    return lambda http, https: FileWeb(folders, http)


def _overrides(items: Sequence[str]) -> dict[str, list[str]]:
    """NAME=ADDRESS[,ADDRESS …] → name → addresses."""
    pairs = (item.partition("=") for item in items)
    return {name: addresses.split(",") for name, _, addresses in pairs}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m crawl_platform.simulation", description=__doc__)
    webs = parser.add_subparsers(dest="web", required=True)
    synthetic = webs.add_parser("synthetic", help="a seeded web that knows the truth about itself")
    synthetic.add_argument("--seed", type=int, required=True)
    synthetic.add_argument("--pace", type=float, default=1.0, help="multiplies every rate of change")
    synthetic.add_argument("--scale", type=float, default=1.0, help="1: about 80 hosts, 5,000 pages")
    files = webs.add_parser("files", help="folders of HTML as hosts")
    files.add_argument("folders", nargs="+", metavar="HOST=FOLDER")
    harmful = webs.add_parser("hostile", help="hosts that mean harm, and one that is honest")
    harmful.add_argument("names", nargs="*", metavar="NAME", help="misbehaviours (default: all)")
    for web in (synthetic, files, harmful):
        web.add_argument("--log", required=True, help="request log, JSON lines")
        web.add_argument(
            "--ca-file", default="", help="where to write the authority (default: beside the log)"
        )
        web.add_argument("--started-at", type=float, help="UTC seconds (default: now)")
        web.add_argument("--http-port", type=int, default=0, help="0: any free one")
        web.add_argument("--https-port", type=int, default=0, help="0: any free one")
        web.add_argument("--ttl", type=int, default=60, help="DNS time to live, seconds")
        web.add_argument("--override", action="append", default=[], metavar="NAME=ADDRESS[,ADDRESS]")
    return parser


if __name__ == "__main__":
    main()
