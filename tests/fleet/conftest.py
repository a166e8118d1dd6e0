"""A failing test shows the logs of the fleet that it was given."""

from collections.abc import Generator

import pytest

from tests.fleet.harness import Fleet


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Fleet):
                report.sections.append(("logs of the fleet", value.logs()))
    return report
