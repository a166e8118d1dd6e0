"""A web crawl that a data team can run, see, query and trust.

The folders are the stages that a URL passes through: `web` → `frontier` → `admission` → `fetch` →
`digest` → `commit` → `lake`; `graph`, `scheduling` and `quality` turn the lake into decisions, `fleet`
runs the processes, `simulation` is a web to crawl without a network and `testing` the public test kit.
"""

__version__ = "0.1.0"
