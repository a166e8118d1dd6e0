"""Compile what runs as machine code, the digest, the link graph and its ranks: `python -m crawl_platform.digest`."""

import time

from crawl_platform.digest import warm
from crawl_platform.graph.host_links import warm as warm_graphs
from crawl_platform.graph.pagerank import warm as warm_ranks
from crawl_platform.machine_code import FOLDER, forget_others

if __name__ == "__main__":
    begun = time.monotonic()
    forget_others()
    warm()
    warm_ranks()
    warm_graphs()
    print(f"machine code is in {FOLDER} ({time.monotonic() - begun:.0f} s)")  # noqa: T201
