"""How fresh a policy keeps copies of pages whose change rates it has to learn: `python -m bench.freshness --json`.

Virtual time and made-up pages; nothing is fetched. Every policy meets the same changes, knows hosts, groups and
importances, and sees of a fetch only whether the page has changed since the last one.
"""
