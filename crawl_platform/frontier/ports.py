"""How many origins a host may have: each has a robots.txt of its own, of up to 500 KB, on disk and in memory.

A host that answers on 65,535 ports would otherwise cost a cell tens of gigabytes.
"""

from crawl_platform.frontier.records import HostRecord
from crawl_platform.web.url import port_of

MAX_PORTS = 8
MAX_FROM_ABROAD = 4
"""Those beyond are for ports that the host itself links to: others may make up any number of them."""


def over_ports(record: HostRecord, url: str, abroad: bool = False) -> str | None:
    """`too_many_ports` if `url` (canonical) names one port more than its host may have; else it is noted.

    `abroad`: another host says that there is such a page.
    """
    port = port_of(url)
    if port is None or port in record.ports:
        return None
    if len(record.ports) >= (MAX_FROM_ABROAD if abroad else MAX_PORTS):
        return "too_many_ports"
    record.ports = (*record.ports, port)
    return None
