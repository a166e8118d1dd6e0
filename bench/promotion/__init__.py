"""How well the ranks keep link farms out of what is promoted, on made-up webs: `python -m bench.promotion --json`.

Nothing is fetched. Every ordering sees the same links, and the hosts that are trusted; who is honest it is not told.
"""
