"""Every error the platform raises, in two families: ours (`PlatformError`) and theirs (`SiteError`).

Ours means a bug, a wrong setting or a service that is away: it surfaces and says what to do. Theirs means
a host, page or network misbehaved: it is data (an outcome row in `fetches`), never a crash.
"""


class CrawlError(Exception):
    """Base of all errors raised by this package."""


class PlatformError(CrawlError):
    """Our fault, the operator's, or that of a service we depend on."""


class ConfigurationError(PlatformError):
    """A setting is missing or wrong; the message says which and what to write instead."""


class LostExchangeError(PlatformError):
    """NATS has lost what only it kept, or is another crawl's: going on would forget exclusions and miss messages."""


class StateError(PlatformError):
    """Durable state can't be read: written by a newer version, or damaged."""


class StateTooNewError(StateError):
    """Durable state was written by a newer release: it is refused, never guessed."""


class DamagedStateError(StateError):
    """Files of durable state are cut, lost or hold other bytes than were written: read on, it would look like less."""


class LakeError(PlatformError):
    """The lake is unavailable or breaks a promise (a named file is missing, a version went back)."""


class LakeRewoundError(LakeError):
    """The lake shows an older transaction than one this cell has already seen: it was restored."""


class QueryError(PlatformError):
    """SQL that is wrong or would change something; the message is one line that says what to do."""


class ExchangeError(PlatformError):
    """NATS is away, refuses, or its stores are full."""


class OwnershipLostError(PlatformError):
    """Another process holds this shard or lease now; the fencing token has moved on."""


class SiteError(CrawlError):
    """A host, page or network misbehaved.

    `outcome` is one of `crawl_platform.fetch.outcome.Outcome`; `detail` is for people.
    """

    def __init__(self, outcome: str, detail: str = "") -> None:
        super().__init__(f"{outcome}: {detail}" if detail else outcome)
        self.outcome = outcome
        self.detail = detail
