"""Every table of the lake, declared once: its columns, its partitioning and what a row is.

Writers build Arrow tables from `Table.schema`, readers get DuckDB views of the same names, Dagster shows
the same column docs. Changes are additive and nullable.
"""

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

SCHEMA_VERSION = 1
"""Written into every manifest; the committer holds manifests of a version it doesn't know."""

Writer = Literal["fleet", "dagster", "requests", "committer"]

TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Column:
    name: str
    type: pa.DataType
    doc: str
    required: bool = False


@dataclass(frozen=True)
class Table:
    """`writer`: `fleet` tables are committed from staged files by the committer alone; `dagster` tables by
    their one asset; `requests` is appended to by anybody; `committer` writes `commits`."""

    name: str
    row: str
    writer: Writer
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ("date",)
    large: tuple[str, ...] = ()
    """Columns with big values: no dictionary, no statistics, small row groups."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type, nullable=not c.required) for c in self.columns])

    @property
    def file_schema(self) -> pa.Schema:
        """Schema of a data file: partition columns are in the path, not in the file."""
        return pa.schema([f for f in self.schema if f.name not in self.partition_by])


def _c(name: str, type_: pa.DataType, doc: str, required: bool = False) -> Column:
    return Column(name, type_, doc, required)


S, I16, I32, I64 = pa.string(), pa.int16(), pa.int32(), pa.int64()
F32, F64, BOOL, BIN = pa.float32(), pa.float64(), pa.bool_(), pa.binary()
DATE = pa.date32()
USES = pa.map_(S, S)
STRENGTHS = pa.map_(S, pa.float64())

FETCHES = Table(
    "fetches",
    "One completed response or failed attempt, robots and sitemaps included (`kind`).",
    "fleet",
    (
        _c("fetch_id", S, "Unique id of this fetch; `links` and `pages` cite it.", True),
        _c("url", S, "Canonical URL that was requested.", True),
        _c("host", S, "Hostname of the URL.", True),
        _c("shard", I32, "xxh3_64(host) mod n_shards.", True),
        _c("kind", S, "page, robots, sitemap or feed.", True),
        _c("lane", S, "fastlane, freshlane, deadline, discovery, refresh, explore; robots for robots.", True),
        _c("started_at", TIME, "When the request was written to the socket.", True),
        _c("duration_ms", F64, "From request write to end of response (ms)."),
        _c(
            "outcome",
            S,
            "One of the documented taxonomy of outcomes; `ok` and `not_modified` are successes.",
            True,
        ),
        _c("status", I16, "HTTP status, null if none arrived."),
        _c("detail", S, "For people: what went wrong."),
        _c("content_type", S, "Content-Type as sent."),
        _c("wire_bytes", I64, "Body bytes read from the socket."),
        _c("body_bytes", I64, "Body bytes after inflating."),
        _c("truncated", BOOL, "The body was cut at the size cap."),
        _c("address", S, "IP address that was connected to."),
        _c("redirect_to", S, "Canonical target of a redirect."),
        _c("changed", BOOL, "Cleaned markup differs from the last success; null on the first success."),
        _c("fingerprint", S, "Hash (128 bits, hex) of what counts as a change."),
        _c("body_hash", S, "xxh3_64 (hex) of the inflated body."),
        _c("link_set", S, "fetch_id whose `links` rows are this page's current links."),
        _c("depth", I16, "Clicks from a root of the host."),
        _c("previous_success_at", TIME, "The last successful fetch before this one."),
        _c("group_id", I32, "Primary URL group, unique within its host; 0 = not grouped yet."),
        _c("template", S, "Path template of the primary group."),
        _c(
            "predicted_change",
            F32,
            "Probability of a change since the last success, as believed before this fetch; null on the first.",
        ),
        _c("rate_a", F32, "Page posterior increment over the group prior (Gamma shape), after this fetch."),
        _c("rate_b", F32, "Page posterior increment over the group prior (days), after this fetch."),
        _c("value", F32, "Value of the page when it was picked."),
        _c("window_id", S, "Schedule window in force."),
        _c("request_id", S, "The fastlane request that asked for it."),
        _c("price", F64, "What the site asks for the page, or took for it (402, pay per crawl)."),
        _c("currency", S, "Currency of price and charged, like USD."),
        _c("charged", F64, "What the site says that it has charged."),
        _c(
            "payment",
            S,
            "What became of a price: declined, other_currency, over_max_price, over_budget, agreed (the page is asked"
            " for again with the price), charged; else the site's crawler-error, or an x402 offer in words.",
        ),
        _c("dns_ms", F32, "Resolving the name (ms); null where the answer was at hand."),
        _c("connect_ms", F32, "TCP and TLS (ms); null on a kept connection."),
        _c("first_byte_ms", F32, "From request write to the first byte of the answer (ms)."),
        _c("oddities", S, "What is wrong with an answer that is kept all the same: names, comma separated."),
        _c("second_group_id", I32, "Group of what one sitemap or feed lists, unique within its host."),
        _c("lastmod", TIME, "When a sitemap or feed said last that the URL had changed, before this fetch."),
        _c("entries", I32, "Locations that a sitemap or feed lists and may speak of."),
        _c("hub", S, "The hub that a feed names for news of it (WebSub)."),
        _c(
            "identity", S, "Who asked: the name of one of the identities; null if it never came to a request."
        ),
        _c(
            "admission_reason",
            S,
            "Why just this identity: only, sticky (its own for the host), drawn (by the day's draw), moved (its own is"
            " set aside), refused (it stays with the one that it refused), probe.",
        ),
        _c("admission_propensity", F64, "Likelihood with which this identity was given this host that day."),
        _c("discovered_at", TIME, "When the URL was first seen; null for robots.txt."),
        _c("cell", S, "Cell that fetched it.", True),
        _c("incarnation", S, "UUID of the cell's durable state.", True),
        _c("manifest", I64, "Number of the manifest that brought this row.", True),
        _c("series", S, "bulk or fast.", True),
        _c("date", DATE, "UTC day of started_at (partition).", True),
    ),
)

LINKS = Table(
    "links",
    "One link of a page's link set, at the fetch that first showed this set.",
    "fleet",
    (
        _c("fetch_id", S, "The fetch that showed the link.", True),
        _c("src_url", S, "Page that holds the link.", True),
        _c("src_host", S, "Its host.", True),
        _c("dst_url", S, "Canonical target.", True),
        _c("dst_host", S, "Host of the target: seed or horizon.", True),
        _c(
            "position",
            S,
            "nav, header, main, aside, footer, comments or other; sitemap or feed, which list it.",
        ),
        _c("rel", S, "rel tokens, space separated, lower case."),
        _c("nofollow", BOOL, "rel nofollow, ugc or sponsored, or the page says nofollow."),
        _c("anchor", S, "Anchor text, cut."),
        _c("seen_at", TIME, "When the fetch started.", True),
        _c("date", DATE, "UTC day of seen_at (partition).", True),
    ),
)

PAGES = Table(
    "pages",
    "One version of a page's content: written when the cleaned markup differs from the last one kept.",
    "fleet",
    (
        _c("fetch_id", S, "The fetch that brought this version.", True),
        _c("url", S, "Canonical URL.", True),
        _c("host", S, "Its host.", True),
        _c("fetched_at", TIME, "When the fetch started.", True),
        _c("title", S, "Title."),
        _c("text", S, "Main text."),
        _c("canonical", S, "rel=canonical target."),
        _c("charset", S, "Encoding used to decode the body."),
        _c("content_type", S, "Content-Type as sent."),
        _c("fingerprint", S, "Hash (128 bits, hex) of what counts as a change."),
        _c("simhash", I64, "64-bit simhash of the main text (signed)."),
        _c(
            "text_hash",
            S,
            "xxh3_64 (hex) of the main text, white space folded: equal texts, whatever is around.",
        ),
        _c("links", I32, "Number of links."),
        _c("truncated", BOOL, "The body was cut at the size cap."),
        _c("noindex", BOOL, "Meta robots or X-Robots-Tag says noindex."),
        _c("body", BIN, "The body as it came over the wire (see body_encoding)."),
        _c("body_encoding", S, "identity, gzip, deflate, br or zstd."),
        _c(
            "preferences",
            USES,
            "What the site says about uses of the page: search, ai-input, ai-train, ai-images, tdm, archive → yes or"
            " no; what is not named is unknown.",
        ),
        _c("preferences_from", USES, "Of each of these, whose word it is, like robots:content-signal."),
        _c("refused", pa.list_(S), "Purposes of this crawl that the site refuses for the page."),
        _c(
            "kept",
            S,
            "What was kept for that reason: all, no_body (noarchive) or facts (no text, title, body).",
        ),
        _c(
            "kind",
            S,
            "What the body is: html, text, feed, sitemap or other, told by its first bytes and its type.",
        ),
        _c("robots", pa.list_(S), "Directives of the page's meta robots elements for everybody and for us."),
        _c(
            "entity_types",
            pa.list_(S),
            "Types of what the page says it is about (JSON-LD): Article, Product …",
        ),
        _c("date", DATE, "UTC day of fetched_at (partition).", True),
    ),
    large=("body", "text"),
)

HOSTS = Table(
    "hosts",
    "One event in a host's life: added to the seed, promoted, excluded, robots read, backed off.",
    "fleet",
    (
        _c("host", S, "Hostname.", True),
        _c("shard", I32, "Its shard.", True),
        _c("happened_at", TIME, "When.", True),
        _c(
            "event",
            S,
            "seeded, promoted, excluded, demoted (back to the horizon, by a verdict or an operator), purged (its state"
            " has left the cell), robots (read), robots_given_up (unreachable for too long), preferences (new), backoff"
            " (begun), paced (the delay in force is another), trap (met), trimmed (its queue).",
            True,
        ),
        _c("state", S, "State after the event: seed, excluded; horizon if demoted.", True),
        _c("trusted", BOOL, "Chosen by an operator: receives the ranks' teleport."),
        _c("decision_id", S, "The decision or request behind it."),
        _c("detail", S, "For people."),
        _c("delay", F64, "Delay in force from the end of a request to the start of the next (seconds)."),
        _c(
            "robots_status",
            S,
            "rules, allow_all, disallow_all (it can't be read) or given_up (not for weeks).",
        ),
        _c("known_urls", I64, "URLs known of the host."),
        _c(
            "preferences",
            USES,
            "With the event preferences: what robots.txt says about uses of the host's root: use → yes or no.",
        ),
        _c("cell", S, "Cell that owns it.", True),
        _c("date", DATE, "UTC day (partition).", True),
    ),
)

FRONTIER = Table(
    "frontier",
    "One known URL in one snapshot of one shard's state. The view `frontier_now` has the last of each shard.",
    "fleet",
    (
        _c("snapshot_id", S, "incarnation and number of the snapshot.", True),
        _c("snapshot_at", TIME, "When the snapshot was taken.", True),
        _c("shard", I32, "Shard.", True),
        _c("host", S, "Hostname.", True),
        _c("url", S, "Canonical URL.", True),
        _c("state", S, "queued, fetched, gone, dropped.", True),
        _c("lane", S, "Lane that it waits in, null if in none."),
        _c("depth", I16, "Clicks from a root of the host."),
        _c("value", F32, "Value."),
        _c("due_at", TIME, "When it may be fetched next."),
        _c("discovered_at", TIME, "When it was first seen."),
        _c("last_success_at", TIME, "Last successful fetch."),
        _c("fails", I16, "Failed attempts since the last success."),
        _c("group_id", I32, "Primary URL group; 0 = not grouped yet."),
        _c("rate_a", F32, "Posterior increment (Gamma shape)."),
        _c("rate_b", F32, "Posterior increment (days)."),
        _c("kind", S, "page, sitemap or feed."),
        _c("second_group_id", I32, "Group of what one sitemap or feed lists; null: it stands in none."),
        _c("lastmod", TIME, "When a sitemap or feed said last that it had changed."),
        _c("record", BIN, "All that its cell keeps of it, for a rebuild after the loss of a disk."),
        _c("host_record", BIN, "The same of its host, in one row of each host."),
        _c("date", DATE, "UTC day of the snapshot (partition).", True),
    ),
)

FLEET_STATS = Table(
    "fleet_stats",
    "One report of one cell about the seconds since its last report.",
    "fleet",
    (
        _c("cell", S, "Cell.", True),
        _c("reported_at", TIME, "End of the period.", True),
        _c("seconds", F64, "Length of the period.", True),
        _c("fetches", I64, "Fetches ended in the period.", True),
        _c("pages", I64, "Of these, pages with outcome ok or not_modified.", True),
        _c("errors", I64, "Of these, neither.", True),
        _c("wire_bytes", I64, "Body bytes read.", True),
        _c("in_flight", I32, "Requests in flight at the end.", True),
        _c("slots", I32, "Fetch slots.", True),
        _c("latency_p50_ms", F64, "Median request duration."),
        _c("latency_p95_ms", F64, "95th percentile of request duration."),
        _c("known_urls", I64, "URLs known.", True),
        _c("queued", I64, "URLs waiting in a queue.", True),
        _c("hosts", I64, "Seed hosts owned.", True),
        _c("discovery", I64, "Fetches charged to discovery.", True),
        _c("refresh", I64, "Fetches charged to refresh.", True),
        _c("lent", I64, "Turns lent because one lane was empty.", True),
        _c("unforgotten", I64, "Manifests that the lake has not confirmed yet.", True),
        _c("rss_bytes", I64, "Resident memory.", True),
        _c("cpu_seconds", F64, "CPU time used in the period.", True),
        _c("seen_absent", I64, "URLs since the start of the cell that the seen set's filters did not know."),
        _c("seen_false_positives", I64, "URLs that the filters took for known and the store did not."),
        _c("date", DATE, "UTC day (partition).", True),
    ),
)

COMMITS = Table(
    "commits",
    "One round of the committer: a consistent version vector over all tables.",
    "committer",
    (
        _c("commit_id", I64, "1, 2, 3 …", True),
        _c("committed_at", TIME, "When the round ended.", True),
        _c("versions", pa.map_(S, I64), "Delta version of every table.", True),
        _c("manifests", pa.list_(S), "incarnation/series/number of each manifest in the round.", True),
        _c(
            "quarantined",
            pa.list_(S),
            "Manifests published empty because a staged file failed its check.",
            True,
        ),
        _c("rows", pa.map_(S, I64), "Rows added per table.", True),
        _c("date", DATE, "UTC day (partition).", True),
    ),
)

REQUESTS = Table(
    "requests",
    "One request by a person or an upstream system. Append a row to ask; `via` says who publishes it.",
    "requests",
    (
        _c("request_id", S, "Chosen by the requester; repeated ids are the same request.", True),
        _c("requested_at", TIME, "When it was asked.", True),
        _c(
            "kind",
            S,
            "recrawl, promote, exclude, lift (an exclusion), remove (from the seed), purge, trim (a queue) or watch.",
            True,
        ),
        _c("target", S, "A URL, a host or *.domain.", True),
        _c("requested_by", S, "Person or system.", True),
        _c("via", S, "exchange: already published; table: a sensor publishes it.", True),
        _c("reason", S, "Why."),
        _c("priority", F64, "Higher first."),
        _c("date", DATE, "UTC day (partition).", True),
    ),
)

DECISIONS = Table(
    "decisions",
    "One decision taken by the platform, with its evidence, inputs and propensity.",
    "dagster",
    (
        _c("decision_id", S, "Derived from inputs and subject: the same inputs give the same id.", True),
        _c("decided_at", TIME, "When.", True),
        _c("kind", S, "promotion, probation or schedule; of a request that was refused, its kind.", True),
        _c("subject", S, "Host, URL or group.", True),
        _c("verdict", S, "promoted, held, allocated …", True),
        _c("reason", S, "In words."),
        _c(
            "propensity",
            F64,
            "Probability of this verdict under the policy that took it; null for a schedule, whose many draws are"
            " summed up in its evidence as log_propensity.",
        ),
        _c("evidence", S, "JSON: the numbers behind it."),
        _c("input_versions", pa.map_(S, I64), "Delta versions that it was computed from.", True),
        _c("decided_by", S, "Asset, sensor or person.", True),
        _c("run_id", S, "Dagster run."),
        _c("date", DATE, "UTC day (partition).", True),
    ),
)

HOST_GRAPH = Table(
    "host_graph",
    "One directed edge between two hosts in the link graph, horizon included.",
    "dagster",
    (
        _c("src_host", S, "Linking host (always a seed host: only those are read).", True),
        _c("dst_host", S, "Linked host.", True),
        _c("links", I64, "Links now shown.", True),
        _c("pages", I64, "Distinct source pages.", True),
        _c("nofollow", I64, "Links with nofollow, ugc or sponsored.", True),
        _c("main", I64, "Links in main content.", True),
        _c(
            "editorial",
            I64,
            "Links that the site itself gives: followed, and not in comments. Only these vote.",
        ),
        _c("first_seen", TIME, "First time a link was seen."),
        _c("last_seen", TIME, "Last time a link set with it was seen."),
    ),
    partition_by=(),
)

HOST_RANKS = Table(
    "host_ranks",
    "One host in the last ranking, seed and horizon.",
    "dagster",
    (
        _c("host", S, "Hostname.", True),
        _c("state", S, "seed, horizon or excluded.", True),
        _c("trusted", BOOL, "Receives teleport.", True),
        _c("trust", F64, "Host PageRank with teleport to the trusted seed, one vote per host pair.", True),
        _c("uniform", F64, "Host PageRank with uniform teleport, weighted by links.", True),
        _c("spam_mass", F64, "1 - trust/uniform.", True),
        _c("eligible", BOOL, "Has trust and does not look like a link farm.", True),
        _c("support", I64, "Distinct seed hosts that link to it.", True),
        _c(
            "independent_support",
            I64,
            "The same with one vote for hosts that belong together, none for new ones.",
            True,
        ),
        _c("harmonic", F64, "Harmonic centrality in the host graph.", True),
        _c("position", I64, "Rank among horizon hosts by trust (1 = best), null for others."),
        _c("per_supporter", F64, "Links per host that links to it, leaving out the one that links most."),
        _c("vouched", F64, "Share of the uniform rank flowing into it that comes from hosts with trust."),
        _c("doubt", F64, "How far its links look like a farm's: from 2 on it is not eligible."),
        _c("strangers", I64, "Linking seed hosts where all links are in comments, or not answered for."),
        _c("by_strangers", BOOL, "These are far more than usual: it is not eligible."),
    ),
    partition_by=(),
)

PROMOTIONS = Table(
    "promotions",
    "One host promoted from the horizon to the seed.",
    "dagster",
    (
        _c("decision_id", S, "Row of `decisions`.", True),
        _c("host", S, "Promoted host.", True),
        _c("decided_at", TIME, "When it was decided.", True),
        _c("reason", S, "In words.", True),
        _c("requested", BOOL, "A customer asked for it by name.", True),
        _c("position", I64, "Position among horizon hosts at that time."),
        _c("trust", F64, "Trust at that time."),
        _c("uniform", F64, "Uniform rank at that time."),
        _c("spam_mass", F64, "Spam mass at that time."),
        _c("independent_support", I64, "Independent seed hosts that link to it."),
        _c("supporters", pa.list_(S), "Some of the seed hosts that link to it."),
        _c("urls", pa.list_(S), "Known URLs handed to the frontier with it."),
        _c("input_versions", pa.map_(S, I64), "Delta versions that it was computed from.", True),
        _c("date", DATE, "UTC day (partition).", True),
    ),
)

PROBATION = Table(
    "probation",
    "One verdict about a promoted host, by what was read of it.",
    "dagster",
    (
        _c("decision_id", S, "Row of `decisions`.", True),
        _c("host", S, "Promoted host.", True),
        _c("promotion", S, "Its promotion: a decision_id of `promotions`.", True),
        _c("decided_at", TIME, "When it was decided.", True),
        _c("verdict", S, "passed, or demoted: it goes back to the horizon.", True),
        _c("reason", S, "In words.", True),
        _c("days", F64, "Time since the promotion (days).", True),
        _c("tried", I64, "Pages fetched since.", True),
        _c("failed", I64, "Of these, could not be read.", True),
        _c("copies", I64, "Of these, say what another page says.", True),
        _c("thin", I64, "Of these, say next to nothing.", True),
        _c("stuffed", I64, "Of these, hold little but links to other hosts.", True),
        _c("demotions", I64, "Times that the host had been demoted before.", True),
        _c("rests_until", TIME, "It is not promoted by its rank before; null if it has passed."),
        _c("urls", pa.list_(S), "Known URLs handed to the frontier when it has passed."),
        _c("input_versions", pa.map_(S, I64), "Delta versions that it was computed from.", True),
        _c("date", DATE, "UTC day (partition).", True),
    ),
)

CRAWL_SCHEDULE = Table(
    "crawl_schedule",
    "One group's allocation in one schedule window.",
    "dagster",
    (
        _c("window_id", S, "Start of the window, UTC, ISO 8601.", True),
        _c("starts_at", TIME, "Start.", True),
        _c("ends_at", TIME, "End.", True),
        _c("host", S, "Host of the group.", True),
        _c("group_id", I32, "URL group; 0 = the host as a whole.", True),
        _c("fetches", I64, "Fetches allotted.", True),
        _c("reserved", I64, "Of these, reserved for deadlines.", True),
        _c("drawn", I64, "Of these, drawn by chance, as far as no limit cut them."),
        _c("most", I64, "Most that politeness and available work allow.", True),
        _c("score", F64, "Marginal value per cost at the allotment."),
        _c(
            "template",
            S,
            "Path template; null for the host as a whole, and before a page of the group was read.",
        ),
        _c("eligible", I64, "Fetches that its queued and due pages are worth in the window."),
        _c("cost", F64, "Expected cost of one fetch, half by time and half by bytes; 1 = the average fetch."),
        _c(
            "propensity",
            F64,
            "Probability with which chance gave the group what it gave; 1: it had no part; null: a limit cut the"
            " draws on its host short, so that none is known.",
        ),
        _c("reason", S, "In words."),
        _c("input_versions", pa.map_(S, I64), "Delta versions that it was computed from.", True),
        _c("date", DATE, "UTC day of the start (partition).", True),
    ),
)

URL_GROUPS = Table(
    "url_groups",
    "One URL group: pages of one host that share a path template, and what has been seen of them.",
    "dagster",
    (
        _c("host", S, "Hostname.", True),
        _c("group_id", I32, "Group, unique within its host.", True),
        _c("template", S, "Path template, like /story/* or /p/#.html?page.", True),
        _c("pages", I64, "Distinct pages fetched.", True),
        _c("known_urls", I64, "URLs known, fetched or not, as of the last snapshot of the frontier."),
        _c("checks", I64, "Successful fetches that could see a change (all but a page's first).", True),
        _c("changed", I64, "Of these, fetches that found one.", True),
        _c("depth", F64, "Mean depth."),
        _c("in_links", F64, "Mean number of links that a page of it has."),
        _c("main_links", F64, "Share of these links that stand in main content."),
        _c("fetch_ms", F64, "Mean duration of a fetch (ms)."),
        _c("wire_bytes", F64, "Mean bytes read per fetch."),
        _c("example", S, "One of its pages.", True),
        _c("last_seen", TIME, "Last fetch of one of its pages.", True),
    ),
    partition_by=(),
)

CHANGE_RATES = Table(
    "change_rates",
    "How often the pages of one URL group change: the group's prior by EM, beside classical estimates.",
    "dagster",
    (
        _c("host", S, "Hostname.", True),
        _c("group_id", I32, "Group, unique within its host.", True),
        _c("template", S, "Path template.", True),
        _c("pages", I64, "Pages with at least one check.", True),
        _c("checks", I64, "Checks: successful fetches that could see a change.", True),
        _c("changed", I64, "Of these, changed.", True),
        _c("unchanged", I64, "Of these, unchanged.", True),
        _c("prior_a", F64, "Shape of the group's Gamma prior.", True),
        _c("prior_b", F64, "Rate parameter of the group's Gamma prior (days).", True),
        _c(
            "rate",
            F64,
            "Expected changes per day of a page of the group (mean of the page posteriors).",
            True,
        ),
        _c("rate_low", F64, "10th percentile of the belief about `rate`."),
        _c("rate_high", F64, "90th percentile of the belief about `rate`."),
        _c("cho_rate", F64, "Cho & Garcia-Molina, bias reduced: changes per day."),
        _c("naive_rate", F64, "Changes seen per day of watching: saturates; for comparison only."),
        _c("mean_interval", F64, "Mean time between checks (days)."),
    ),
    partition_by=(),
)

COLD_PRIORS = Table(
    "cold_priors",
    "The prior that a model gives to a URL group of which too little has been seen.",
    "dagster",
    (
        _c("host", S, "Hostname.", True),
        _c("group_id", I32, "Group, unique within its host.", True),
        _c("template", S, "Path template.", True),
        _c("prior_a", F64, "Shape of the Gamma prior.", True),
        _c("prior_b", F64, "Rate parameter of the Gamma prior (days).", True),
        _c("predicted_rate", F64, "Changes per day that the model expects.", True),
    ),
    partition_by=(),
)

SECONDARY_GROUPS = Table(
    "secondary_groups",
    "Pages of one host that declare one type, or to which links in one position lead, whatever their templates.",
    "dagster",
    (
        _c("host", S, "Hostname.", True),
        _c("group_id", I32, "Group, unique within its host, and the same for ever.", True),
        _c(
            "kind",
            S,
            "type (declared, JSON-LD) or position (of links to it; sitemap and feed list it).",
            True,
        ),
        _c("name", S, "The type or position.", True),
        _c("pages", I64, "Pages fetched. A page may be in several groups.", True),
        _c("primary_groups", I64, "Path templates among them.", True),
        _c("primary_template", S, "The most frequent one."),
        _c("primary_share", F64, "Share of the pages that have it.", True),
        _c("checks", I64, "Successful fetches that could see a change.", True),
        _c("changed", I64, "Of these, fetches that found one.", True),
        _c("rate", F64, "Expected changes per day of a page; null before any check."),
        _c("rate_low", F64, "10th percentile of the belief about `rate`."),
        _c("rate_high", F64, "90th percentile of the belief about `rate`."),
    ),
    partition_by=(),
)

GROUP_WORK = Table(
    "group_work",
    "One bucket of pages of one URL group that are alike, as of the last snapshot of their shard.",
    "dagster",
    (
        _c("snapshot_at", TIME, "When that was taken.", True),
        _c("shard", I32, "Shard.", True),
        _c("host", S, "Hostname.", True),
        _c("group_id", I32, "Primary group, unique within its host; 0 = not grouped yet.", True),
        _c("state", S, "waiting (for a first success), known, or over: gone or dropped.", True),
        _c("pages", I64, "URLs.", True),
        _c("value", F64, "Mean value.", True),
        _c("rate_a", F64, "Mean posterior increment (Gamma shape).", True),
        _c("rate_b", F64, "Mean posterior increment (days).", True),
        _c("since_first", TIME, "First of the moments since when: the last success, or being known.", True),
        _c("since_last", TIME, "Last of them.", True),
    ),
    partition_by=(),
)

RELATED_HOSTS = Table(
    "related_hosts",
    "One host of a component of hosts that belong together (shared address, registrable domain).",
    "dagster",
    (
        _c("component", I64, "Number of the component: hosts of one number belong together.", True),
        _c("host", S, "Hostname.", True),
        _c("size", I64, "Hosts in the component.", True),
        _c(
            "shared",
            pa.list_(S),
            "What it shares with others, like address:192.0.2.1 or domain:example.org.",
            True,
        ),
        _c("state", S, "seed, horizon or excluded.", True),
    ),
    partition_by=(),
)

NEAR_DUPLICATES = Table(
    "near_duplicates",
    "One page of a cluster of pages that say (nearly) the same.",
    "dagster",
    (
        _c("cluster_id", S, "The cluster: hash of its representative's URL.", True),
        _c("url", S, "Page.", True),
        _c("host", S, "Its host.", True),
        _c("fetch_id", S, "The version of the page in `pages` that was compared.", True),
        _c("representative", S, "The page that stands for the cluster: the one known longest.", True),
        _c("is_representative", BOOL, "This is that page.", True),
        _c("kind", S, "exact (same main text) or near.", True),
        _c("similarity", F64, "Jaccard similarity of 3-word shingles with the representative.", True),
        _c("words", I64, "Words of main text.", True),
        _c("size", I64, "Pages in the cluster.", True),
        _c("value", F64, "Not written any more: what pages are worth is in page_values."),
        _c("worth", F64, "Not written any more."),
    ),
    partition_by=(),
)

POLICY_COMPARISON = Table(
    "policy_comparison",
    "One policy of revisits in one made-up world, beside the index that knows every rate.",
    "dagster",
    (
        _c("world", S, "benchmark, or like this crawl: groups and rates as in `change_rates`.", True),
        _c("policy", S, "Name of the policy; true is the index that knows every rate, bayes is ours.", True),
        _c(
            "paired_ratio",
            F64,
            "Freshness by importance in the last 60 of 120 days, as part of the known-rate index's.",
            True,
        ),
        _c("paired_ratio_min", F64, "The same in the worst of the worlds.", True),
        _c("paired_ratio_max", F64, "The same in the best of them.", True),
        _c("early_ratio", F64, "The same in days 30 to 60.", True),
        _c("ratio_to_optimum", F64, "Freshness as part of the continuous optimum's.", True),
        _c("freshness", F64, "Share of copies that equal the live page, by importance.", True),
        _c("catch", F64, "Share of fetches that found a change: says nothing of freshness.", True),
        _c("seeds", I64, "Made-up worlds that are averaged.", True),
    ),
    partition_by=(),
)

POLICY_EVALUATION = Table(
    "policy_evaluation",
    "One estimate of what a candidate for the random share would have brought, from logged windows.",
    "dagster",
    (
        _c("candidate", S, "Name of the candidate; shipped is the policy that made the log.", True),
        _c(
            "outcome",
            S,
            "What is counted per group and window: news (new or changed pages) or fetches.",
            True,
        ),
        _c("method", S, "inverse propensity, self-normalised or doubly robust.", True),
        _c("value", F64, "Estimate per group and window; null where the log can't support it."),
        _c("low", F64, "Lower end of its 95 % interval; null for less than two windows."),
        _c("high", F64, "Upper end of it."),
        _c("logged", F64, "What the shipped policy brought."),
        _c("gain", F64, "value less logged: known better than either, since both had the same decisions."),
        _c("gain_low", F64, "Lower end of its 95 % interval."),
        _c("gain_high", F64, "Upper end of it."),
        _c(
            "unsupported", F64, "Share of the candidate's choices that the log never saw: propensity 0.", True
        ),
        _c("effective", F64, "Effective sample size: as many decisions of the candidate's own.", True),
        _c("clipped", F64, "Share of the weight that clipping took.", True),
        _c("decisions", I64, "Logged decisions: group and window.", True),
        _c("windows", I64, "Windows they come from.", True),
        _c("verdict", S, "In words: what the log says, or why it can't.", True),
    ),
    partition_by=(),
)

PAGE_RANKS = Table(
    "page_ranks",
    "One page of a seed host, read or not, in the link graph of pages (docs/link_graph.md).",
    "dagster",
    (
        _c("url", S, "Page.", True),
        _c("host", S, "Its host.", True),
        _c("read", BOOL, "It was fetched with success.", True),
        _c("rank", F64, "PageRank: readers start at front pages by the trust of their hosts.", True),
        _c("importance", F64, "Part of all pages of the seed that rank below it: 0 to 1.", True),
        _c("in_links", I64, "Pages that link to it, in links that are followed.", True),
        _c("main_links", I64, "Of these, with a link in main content.", True),
    ),
    partition_by=(),
)

PAGE_VALUES = Table(
    "page_values",
    "What one page is worth to the crawl: six signals, and their combination (docs/values.md).",
    "dagster",
    (
        _c("url", S, "Page.", True),
        _c("host", S, "Its host.", True),
        _c("group_id", I32, "Its URL group, unique within its host; null: none is known."),
        _c("fetch_id", S, "The version in `pages` that was looked at; null: it was never read."),
        _c(
            "business",
            F64,
            "What the topics file says of URL, anchors, title and text: -1 to 1; null: no file.",
        ),
        _c("ir", F64, "Use for retrieval, by text and title or by retrievals: 0 to 1; null: never read."),
        _c("corpus", F64, "How much of a gap it fills (group, language, entity type): 0 to 1."),
        _c("technical", F64, "What faults leave of its value: 1, or that of `fault`.", True),
        _c("exploration", F64, "How unsure it is what its group is worth: 0 to 1.", True),
        _c(
            "importance",
            F64,
            "Part of all pages of the seed that rank below it (`page_ranks`): 0 to 1; null: no link to it is known.",
        ),
        _c("base", F64, "What the fleet thinks of it by depth alone.", True),
        _c("value", F64, "The combination.", True),
        _c("told", F64, "What the fleet was told last; null: nothing, it goes by base."),
        _c("reason", S, "In words.", True),
        _c("fault", S, "Soft error, gone, duplicate, canonical elsewhere, not to be indexed or failing."),
        _c("critical", BOOL, "It or its host was called critical (`usage`).", True),
        _c("retrievals", F64, "Retrievals (`usage`), those of 30 days ago counted half.", True),
        _c("words", I32, "Words at the beginning of its main text, 5,000 or so at most."),
        _c("language", S, "Language of the text (ISO 639-1), null where it can't be told."),
        _c("entity_type", S, "The rarest of the types that it declares."),
        _c("soft_error", BOOL, "It says that there is no such page."),
        _c("text_topics", STRENGTHS, "Strength of each topic that title, text and types speak of."),
        _c("link_topics", STRENGTHS, "Strength of each topic that its URL and the texts of links speak of."),
        _c("text_scored_by", S, "Digest of the topics file that the text was compared with."),
        _c("links_scored_by", S, "Hash of the topics file and of the texts of links that were compared."),
        _c("computed_at", TIME, "When.", True),
    ),
    partition_by=(),
)

WATCHED_PAGES = Table(
    "watched_pages",
    "One page whose revisits keep bringing links that nobody had shown before, and how often it is visited for them.",
    "dagster",
    (
        _c("url", S, "Page.", True),
        _c("host", S, "Its host.", True),
        _c("revisits", I64, "Revisits that were looked at: successful ones of the last 14 days.", True),
        _c("fruitful", I64, "Of these, brought new links.", True),
        _c("days", F64, "Time that these revisits cover (days).", True),
        _c("new_links", I64, "Links to seed hosts that they were the first to show.", True),
        _c("read", I64, "Of these links, fetched since.", True),
        _c("good", I64, "Of those, pages of their own: neither failed nor duplicates.", True),
        _c("rate", F64, "New links per day, as far as they are pages of their own.", True),
        _c("every", F64, "Seconds between two visits; null: it is not watched."),
        _c("told", F64, "What the fleet was told last (seconds); null: nothing, or that it is not watched."),
        _c("reason", S, "In words.", True),
        _c("computed_at", TIME, "When.", True),
    ),
    partition_by=(),
)

USAGE = Table(
    "usage",
    "What was told from outside about the use of one page, or of a whole host (`crawl usage import`).",
    "requests",
    (
        _c("url", S, "Canonical URL; null: of the host as a whole."),
        _c("host", S, "Hostname.", True),
        _c("used_at", TIME, "When it was so.", True),
        _c("retrievals", I64, "How often the page was retrieved or read since it was last told."),
        _c(
            "critical",
            BOOL,
            "True: never worth less than the floor; false: not critical any more; null: not said.",
        ),
        _c("source", S, "Name of the file.", True),
        _c("line", I64, "Its line or row.", True),
        _c("import_id", S, "Digest of the file: the same file counts once.", True),
        _c("imported_at", TIME, "When it was imported.", True),
        _c("date", DATE, "UTC day of imported_at (partition).", True),
    ),
)

CRAWL_QUALITY = Table(
    "crawl_quality",
    "One measure of the crawl at one time.",
    "dagster",
    (
        _c("measured_at", TIME, "When.", True),
        _c("measure", S, "Name of the measure; its definition is in crawl_platform/quality.", True),
        _c("dimension", S, "usefulness, completeness, freshness, timeliness, cost or politeness.", True),
        _c("value", F64, "The measure; null where there is nothing to measure yet."),
        _c("unit", S, "Unit of the value.", True),
        _c("numerator", F64, "What was counted."),
        _c("denominator", F64, "Out of what."),
        _c("window_seconds", F64, "Length of the time looked back over; null for a state."),
        _c("input_versions", pa.map_(S, I64), "Delta versions that it was computed from.", True),
        _c("date", DATE, "UTC day (partition).", True),
    ),
)

SEED_AUDIT = Table(
    "seed_audit",
    "One seed host that is of no use, or one host that the seed lacks: what `crawl seed audit` and `suggest` say.",
    "dagster",
    (
        _c("host", S, "Hostname.", True),
        _c("kind", S, "problem (of a seed host) or suggestion (a host outside the seed).", True),
        _c(
            "reason",
            S,
            "Problems: silent, forbidden, moved, failing, parked, soft_errors, mirrored, no_text; suggestions:"
            " redirect, canonical, twin, linked.",
            True,
        ),
        _c("evidence", S, "In words.", True),
        _c("advice", S, "What to do.", True),
        _c(
            "others",
            pa.list_(S),
            "Other hosts that it is about: target, original, some that point to it.",
            True,
        ),
        _c("strength", I64, "Pages behind a problem, seed hosts behind a suggestion.", True),
        _c("computed_at", TIME, "When.", True),
    ),
    partition_by=(),
)

UPKEEP = Table(
    "upkeep",
    "One thing that upkeep did to one table.",
    "dagster",
    (
        _c("happened_at", TIME, "When.", True),
        _c("table_name", S, "Table; purges of what was erased in all of them.", True),
        _c("action", S, "retain, compact, vacuum, sweep, purge or erase.", True),
        _c("files_before", I64, "Live data files before (sweep: staged files)."),
        _c("files_after", I64, "The same after."),
        _c("files_removed", I64, "Files deleted from the disk."),
        _c("rows_removed", I64, "Rows that retention or a purge took out of the current version."),
        _c("bytes_freed", I64, "Bytes deleted from the disk."),
        _c("seconds", F64, "How long it took.", True),
        _c("detail", S, "For people."),
        _c("date", DATE, "UTC day (partition).", True),
    ),
)

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        FETCHES, LINKS, PAGES, HOSTS, FRONTIER, FLEET_STATS, COMMITS, REQUESTS, DECISIONS,
        HOST_GRAPH, HOST_RANKS, RELATED_HOSTS, PROMOTIONS, PROBATION, URL_GROUPS, CHANGE_RATES, COLD_PRIORS, GROUP_WORK,
        SECONDARY_GROUPS,
        CRAWL_SCHEDULE, POLICY_COMPARISON, POLICY_EVALUATION, NEAR_DUPLICATES, PAGE_RANKS, PAGE_VALUES, WATCHED_PAGES,
        USAGE, CRAWL_QUALITY, SEED_AUDIT, UPKEEP,
    )
}  # fmt: skip
