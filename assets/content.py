"""Group `content`: what pages say: clusters of near-duplicates."""

import dagster as dg

GROUP = "content"
OWNERS = ["team:crawl"]

ASSETS: tuple[dg.AssetsDefinition, ...] = ()
