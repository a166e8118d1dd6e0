"""Group `upkeep`: compaction, retention and vacuum of the lake."""

import dagster as dg

GROUP = "upkeep"
OWNERS = ["team:crawl"]

ASSETS: tuple[dg.AssetsDefinition, ...] = ()
