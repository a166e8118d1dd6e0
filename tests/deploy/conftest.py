from functools import cache
from pathlib import Path

import kubernetes_validate
import pytest

from tests.deploy.manifests import VALUE_SETS, Rendered, render, values_of


@pytest.fixture(scope="session", autouse=True)
def schemas_read_once():
    """Kubernetes' schemas are the same for every manifest, and `validate` reads all of them each time."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("schema_contents", "all_versions"):
            patch.setattr(kubernetes_validate.utils, name, cache(getattr(kubernetes_validate.utils, name)))
        yield


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
