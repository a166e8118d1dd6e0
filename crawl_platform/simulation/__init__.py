"""A web to crawl without a network: as an object that knows the truth, and as real servers on loopback."""
