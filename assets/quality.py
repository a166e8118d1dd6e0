"""Group `quality`: what a good crawl is, measured."""

import dagster as dg

GROUP = "quality"
OWNERS = ["team:crawl"]

ASSETS: tuple[dg.AssetsDefinition, ...] = ()
