"""Group `change_rates`: URL groups, how often their pages change, and the model behind cold groups."""

import dagster as dg

GROUP = "change_rates"
OWNERS = ["team:crawl"]

ASSETS: tuple[dg.AssetsDefinition, ...] = ()
