from pathlib import Path

import pytest

from tests.deploy.manifests import VALUE_SETS, Rendered, render, values_of


@pytest.fixture(params=VALUE_SETS)
def rendered(request: pytest.FixtureRequest) -> Rendered:
    """The chart with each of the value sets."""
    return Rendered(render(values_of(request.param)))


@pytest.fixture
def default() -> Rendered:
    return Rendered(render({}))


@pytest.fixture
def trial() -> Rendered:
    return Rendered(render(values_of("trial")))


@pytest.fixture
def production() -> Rendered:
    return Rendered(render(values_of("production")))


@pytest.fixture
def repository() -> Path:
    return Path(__file__).parents[2]
