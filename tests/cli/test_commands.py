"""Commands without a running fleet: what they refuse, and how they say it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawl_platform import settings as settings_module
from crawl_platform.cli import main, run
from crawl_platform.errors import PlatformError
from crawl_platform.lake.lake import Lake


def crawl(*arguments: str, home: Path | None = None) -> Result:
    return CliRunner().invoke(main, [*arguments, *(("--home", str(home)) if home else ())])


@pytest.fixture
def still_crawl(tmp_path: Path) -> Path:
    """The home of a crawl that has a lake and no fleet."""
    Lake(tmp_path / "lake").create(64)
    return tmp_path


def test_help_names_every_command_and_the_first_steps() -> None:
    shown = crawl("--help")

    assert shown.exit_code == 0
    for name in ("up", "down", "reload", "status", "top", "seed", "promote", "promotions", "exclude", "recrawl",
                 "pause", "resume", "explain", "show", "frontier", "shards", "sql", "usage", "export", "upkeep",
                 "size", "demo", "doctor", "purge"):  # fmt: skip
        assert f"\n  {name} " in shown.output
        assert crawl(name, "--help").exit_code == 0
    assert "crawl up --seeds FILE --contact MAIL " in shown.output
    assert shown.output.index("\nRun:\n") < shown.output.index("\nSteer:\n") < shown.output.index("\nLook:\n")


def test_a_command_imports_only_what_it_needs() -> None:
    """Ablation: one import of Dagster by all commands made each of them wait a second longer."""
    imported = "import sys; print(sorted({'dagster', 'nats', 'matplotlib'} & sys.modules.keys()))"

    def after(module: str) -> str:
        code = f"import crawl_platform.cli.{module}; {imported}"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert after("sql") == "[]\n"
    assert after("demo") == "['nats']\n"


def test_a_shell_completes_commands_and_options() -> None:
    def completed(words: str, at: int) -> str:
        environment = {"_CRAWL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
        return CliRunner().invoke(main, prog_name="crawl", env=environment).output

    assert completed("crawl fr", 1) == "plain,frontier\n"
    assert completed("crawl export --si", 2) == "plain,--since\n"


def test_up_without_a_contact_refuses_and_says_why(tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("example.org\n")

    refused = crawl("up", "--seeds", str(seeds), home=tmp_path / "home")

    assert refused.exit_code == 2
    assert "site owners must be able to reach you" in refused.output
    assert not (tmp_path / "home" / "lake").exists()


def test_a_folder_that_can_not_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    refused = crawl("up", "--contact", "me@example.org", home=tmp_path / "file" / "home")

    assert refused.exit_code == 1
    assert refused.output == f"Error: {tmp_path / 'file' / 'home'}: Not a directory\n"


def test_up_without_seeds_refuses_a_new_crawl(tmp_path: Path) -> None:
    refused = crawl("up", "--contact", "me@example.org", home=tmp_path)

    assert refused.exit_code == 2
    assert "--seeds FILE" in refused.output


def test_a_delay_of_zero_is_refused(tmp_path: Path) -> None:
    assert crawl("up", "--contact", "me@example.org", "--delay", "0", home=tmp_path).exit_code == 2


def test_a_delay_of_zero_in_the_settings_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "crawl.toml").write_text("[politeness]\nhost_delay = 0\n")

    refused = crawl("up", "--contact", "me@example.org", home=tmp_path)

    assert refused.exit_code == 2
    assert "nothing switches politeness off" in refused.output


def test_an_unknown_setting_is_named(tmp_path: Path) -> None:
    (tmp_path / "crawl.toml").write_text("[politeness]\nhost_dealy = 2\n")

    refused = crawl("status", home=tmp_path)

    assert refused.exit_code == 2
    assert "host_dealy" in refused.output


def test_settings_survive_being_saved(tmp_path: Path) -> None:
    (tmp_path / "crawl.toml").write_text('[fetch]\nnameservers = ["127.0.0.1:53"]\nslots = 7\n')
    settings = settings_module.load(tmp_path)

    settings_module.save(settings)

    assert settings_module.load(tmp_path) == settings
    assert settings.fetch.slots == 7


def test_commands_on_no_crawl_say_how_to_start_one(tmp_path: Path) -> None:
    for command in (("status",), ("explain", "http://a.test/"), ("promotions",), ("seed", "a.test")):
        refused = crawl(*command, home=tmp_path)
        assert refused.exit_code == 2, command
        assert "there is no crawl at" in refused.output
        assert "crawl up" in refused.output


def test_steering_without_a_fleet_says_so(still_crawl: Path) -> None:
    for command in (("recrawl", "http://a.test/"), ("exclude", "a.test"), ("promote", "a.test")):
        refused = crawl(*command, home=still_crawl)
        assert refused.exit_code == 2, command
        assert "no fleet is running" in refused.output


@pytest.mark.parametrize("pattern", ["ftp://a.test/", "*.*.test", "a b", ""])
@pytest.mark.parametrize("command", ["exclude", "purge"])
def test_what_is_no_host_domain_or_url_is_neither_excluded_nor_purged(
    still_crawl: Path, command: str, pattern: str
) -> None:
    refused = crawl(command, pattern, home=still_crawl)

    assert refused.exit_code == 2
    assert "neither a hostname nor *.domain" in refused.output or "is no URL" in refused.output


@pytest.mark.long
def test_a_purge_is_a_preview_unless_it_is_meant_and_needs_a_reason_and_a_fleet(still_crawl: Path) -> None:
    shown = crawl("purge", "a.test", home=still_crawl)
    assert shown.exit_code == 0
    assert "a preview: nothing was changed" in shown.output

    refused = crawl("purge", "a.test", "--yes", home=still_crawl)
    assert refused.exit_code == 2
    assert "say why with --reason" in refused.output

    refused = crawl("purge", "a.test", "--yes", "--reason", "a court", home=still_crawl)
    assert refused.exit_code == 2
    assert "a purge needs the fleet" in refused.output
    assert not (still_crawl / "lake" / "purges.json").exists()


def test_without_a_fleet_a_pause_is_for_the_next_one(still_crawl: Path) -> None:
    for command, told in (
        (("pause", "www.a.test"), ["a.test"]),
        (("resume", "a.test"), []),
        (("pause",), []),
    ):
        done = crawl(*command, home=still_crawl)
        assert done.exit_code == 0
        assert "the next one starts so" in done.output
        report = json.loads(crawl("status", "--json", home=still_crawl).stdout)
        assert report["paused_domains"] == told
    assert report["paused"]


def test_status_of_a_stopped_crawl_is_bad_news_with_an_exit_status(still_crawl: Path) -> None:
    shown = crawl("status", "--json", home=still_crawl)

    assert shown.exit_code == 1
    assert json.loads(shown.output)["state"] == "stopped"


def test_explain_of_a_host_that_nothing_links_to_says_so(still_crawl: Path) -> None:
    shown = crawl("explain", "http://A.test/x?utm_source=b#c", home=still_crawl)

    assert shown.exit_code == 0
    assert shown.output.startswith("http://a.test/x\n")
    assert "no page that was fetched links to its host" in shown.output
    assert crawl("explain", "a.test", home=still_crawl).output.startswith("https://a.test/\n")


def test_explain_refuses_what_is_no_url(still_crawl: Path) -> None:
    assert crawl("explain", "mailto:a@b.test", home=still_crawl).exit_code == 2


def test_size_follows_littles_law() -> None:
    need = json.loads(crawl("size", "--rate", "200", "--latency", "0.5", "--json").output)

    assert need["in_flight"] == 100
    assert need["hosts_needed"] == need["connections"] == 300
    said = crawl("size", "--rate", "200", "--latency", "0.5").output
    for what in ("connections", "open files", "memory", "cells", "Mbit/s", "disk", "money", "example prices"):
        assert what in said


def test_size_counts_money_by_the_prices_that_it_is_given() -> None:
    free = ("--core-hour", "0", "--gb-month", "0", "--gb-received", "0")
    load = ("size", "--rate", "10", "--latency", "1", "--page", "1000000", "--wire", "0.5", "--json")

    nothing = json.loads(crawl(*load, *free).output)
    traffic = json.loads(crawl(*load, *free, "--gb-received", "1").output)

    assert nothing["cost_per_month"]["total"] == 0
    # 10 fetches/s of 0.5 MB: 5 MB/s, 432 GB a day
    assert traffic["cost_per_month"]["received"] == pytest.approx(30 * 432, rel=0.01)
    assert nothing["disk_bytes_per_day"] > 0


def test_doctor_finds_a_missing_contact_and_says_what_to_do(tmp_path: Path) -> None:
    shown = crawl("doctor", "--json", home=tmp_path)

    findings = {finding["check"]: finding for finding in json.loads(shown.output)}
    assert shown.exit_code == 1
    assert not findings["contact"]["ok"]
    assert "--contact" in findings["contact"]["remedy"]
    assert findings["delta extension"]["ok"]


def test_doctor_names_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "crawl.toml").write_text("[fleet\n")

    shown = crawl("doctor", home=tmp_path)

    assert shown.exit_code == 1
    assert "not valid TOML" in shown.output


def test_a_process_that_got_a_dead_fleets_pid_is_not_taken_for_it(still_crawl: Path) -> None:
    status = {"pid": os.getpid(), "state": "running", "started_at": 0, "at": 0, "children": []}
    (still_crawl / "run").mkdir()
    (still_crawl / "run" / "status.json").write_text(json.dumps(status))

    assert "no fleet is running" in crawl("down", home=still_crawl).output  # and we still live
    assert json.loads(crawl("status", "--json", home=still_crawl).output)["state"] == "died"


def test_who_follows_a_crawl_does_not_end_it_when_the_exchange_is_away(
    still_crawl: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "PROGRESS_EVERY", 0.2)
    monkeypatch.setattr(run.signal, "signal", lambda *_: None)  # pytest keeps its own handlers
    process = subprocess.Popen(["sleep", "0.5"])

    with pytest.raises(PlatformError, match="the fleet has ended"):  # and not before
        run.follow(settings_module.load(still_crawl), process, run.Interrupts())

    assert "no figures now: no fleet is running" in capsys.readouterr().out


def test_demo_never_empties_a_folder_that_is_not_a_demos(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")

    refused = crawl("demo", home=tmp_path)

    assert refused.exit_code == 2
    assert (tmp_path / "thesis.txt").exists()


def test_a_crawl_that_has_fetched_nothing_has_no_useless_and_no_missing_seeds(still_crawl: Path) -> None:
    audit, suggest = crawl("seed", "audit", home=still_crawl), crawl("seed", "suggest", home=still_crawl)

    assert "nothing is wrong with the seed hosts" in audit.output
    assert "point to no host outside the seed" in suggest.output


def test_an_option_before_the_name_of_a_seed_command_is_told(still_crawl: Path) -> None:
    refused = crawl("seed", "--json", "import", "list.csv", home=still_crawl)

    assert refused.exit_code == 2
    assert "write `crawl seed import` before its options" in refused.output
