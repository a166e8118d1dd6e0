"""How hard properties are tried: a little at every `make test`, thoroughly in `make test-long`."""

import pytest
from hypothesis import settings

settings.register_profile("quick", max_examples=12, deadline=None)
settings.register_profile("thorough", max_examples=200, deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    """Properties that name their own number of examples keep it. No deadline: a busy machine is no failure."""
    settings.load_profile("thorough" if config.getoption("markexpr") == "long" else "quick")
