"""How many origins a host may have: each has a robots.txt of its own, of up to 500 KB, on disk and in memory.

A host that answers on 65,535 ports would otherwise cost a cell tens of gigabytes.
"""

from crawl_platform.frontier.records import HostRecord
from crawl_platform.web.url import port_of

MAX_PORTS = 8


def over_ports(record: HostRecord, url: str) -> str | None:
    """`too_many_ports` if `url` (canonical) names one port more than its host may have; else it is noted."""
    port = port_of(url)
    if port is None or port in record.ports:
        return None
    if len(record.ports) >= MAX_PORTS:
        return "too_many_ports"
    record.ports = (*record.ports, port)
    return None
