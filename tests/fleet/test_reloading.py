"""Settings read anew while the fleet runs: a list of front ends, with no request out of its time at the seam."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from crawl_platform import settings as settings_module
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.reloading import settings_to_reload
from crawl_platform.settings import Fleet as FleetSettings
from crawl_platform.settings import Identity, Politeness, Settings
from crawl_platform.simulation.verdict import overlaps, short_gaps
from resources.local_fleet import reload_fleet
from tests.fleet.harness import Fleet, eventually
from tests.fleet.sites import Plan, page_of, serve

HOST, ADDRESS = 0.05, 0.4
LISTED = Politeness(host_delay=HOST, address_delay=ADDRESS, front_ends="cdn.txt", front_end_rate=15.0)


@pytest.mark.long
def test_a_list_of_front_ends_is_in_force_after_a_reload_and_out_of_it_after_another(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "cdn.txt").write_text("# none yet\n")
    with (
        serve(tmp_path, Plan("one.test", 1_000)) as world,
        Fleet(home, world.web, politeness=LISTED, fleet=FleetSettings(cells=2)) as fleet,
    ):
        fleet.start()
        fleet.seed()
        fleet.wait_requests(8)

        (home / "cdn.txt").write_text("127.0.0.0/8\n")
        before = fleet.clock.boottime()
        reload_fleet(home)
        faster = len(fleet.requests())
        fleet.wait_requests(faster + 40)

        (home / "cdn.txt").write_text("127.0.0.0/33\n")
        with pytest.raises(ConfigurationError, match=r"cdn\.txt, line 1: "):
            reload_fleet(home)
        (home / "cdn.txt").write_text("")
        reload_fleet(home)
        after = fleet.clock.boottime()
        slower = len(fleet.requests())
        fleet.wait_requests(slower + 8)
        log = fleet.requests()
        restarts = fleet.restarts("cell-0"), fleet.restarts("committer"), fleet.restarts("nats")
        fleet.stop()

    assert overlaps(log, by="address") == []
    assert short_gaps(log, HOST) == []
    slow = (
        [entry for entry in log if entry.start_boot < before],
        [entry for entry in log if entry.start_boot > after],
    )
    assert [short_gaps(part, ADDRESS, by="address") for part in slow] == [[], []]
    listed = [entry for entry in log if before < entry.start_boot < after]
    assert len(short_gaps(listed, ADDRESS, by="address")) > 30, "a front end is asked faster"
    assert restarts == (2, 2, 0)


def saved(home: Path, change: Callable[[Settings], Settings] = lambda made: made) -> Path:
    settings_module.save(change(Settings(home=str(home), identity=Identity(contact="a@b.test"))))
    return home


def test_settings_that_are_right_may_be_reloaded(tmp_path: Path) -> None:
    assert settings_to_reload(saved(tmp_path), 1).politeness.host_delay == 1.0


def test_the_number_of_cells_does_not_change_while_they_run(tmp_path: Path) -> None:
    saved(tmp_path, lambda made: msgspec.structs.replace(made, fleet=FleetSettings(cells=3)))

    with pytest.raises(ConfigurationError, match=r"fleet\.cells is 3, and 1 run"):
        settings_to_reload(tmp_path, 1)


@pytest.mark.long
def test_a_supervisor_that_is_told_to_reload_what_is_wrong_goes_on_as_it_was(tmp_path: Path) -> None:
    with serve(tmp_path, Plan("one.test", 3)) as world, Fleet(tmp_path / "home", world.web) as fleet:
        fleet.start()
        pid = fleet.pid("cell-0")
        wrong = msgspec.structs.replace(fleet.settings, fleet=FleetSettings(cells=7))
        settings_module.save(wrong)
        assert fleet.process is not None

        fleet.process.send_signal(1)
        eventually(lambda: "all goes on as it was: fleet.cells is 7" in fleet.log_text("supervisor"), 10.0)

        assert fleet.pid("cell-0") == pid
        fleet.stop()


@pytest.mark.long
def test_a_scope_that_is_made_narrower_keeps_what_it_leaves_out_from_being_fetched(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with (
        serve(tmp_path, Plan("one.test", 60)) as world,
        Fleet(home, world.web, politeness=Politeness(host_delay=0.1, address_delay=0.1)) as fleet,
    ):
        fleet.start()
        fleet.seed()
        fleet.wait_requests(6)

        with (home / settings_module.CONFIG_NAME).open("a") as config:
            config.write('\n[[hosts]]\nmatch = "one.test"\nscope.exclude = ["/p*3.html$"]\n')
        reload_fleet(home)
        narrow = fleet.clock.boottime()
        fleet.wait_quiet()
        log = [page_of(entry.path) for entry in fleet.requests() if entry.start_boot > narrow]
        fleet.stop()

    left_out = [page for page in world.sites["one.test"].pages if page.endswith("3.html")]
    assert len(left_out) == 6
    assert set(log) & set(left_out) == set()
    assert len(log) > 20
