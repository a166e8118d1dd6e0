"""Group `marts`: dbt models over the lake for analysts, and the file that they read."""

import dagster as dg

GROUP = "marts"
OWNERS = ["team:crawl"]

ASSETS: tuple[dg.AssetsDefinition, ...] = ()
