"""The product's own path in virtual time, beside one who knows every rate: `python -m bench.simulation --json`."""
