"""`crawl identity`: what a site may know of us, and nothing more."""

import json
import stat
from pathlib import Path

from click.testing import CliRunner

from crawl_platform import settings as settings_module
from crawl_platform.cli import main
from crawl_platform.settings import Identity, Settings, Signing
from tests.fetch.verifying import Site


def identity(home: Path, *arguments: str) -> str:
    done = CliRunner().invoke(main, ["identity", *arguments, "--home", str(home)])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_key_is_made_once_and_its_public_half_shown(tmp_path: Path) -> None:
    published = identity(tmp_path, "--jwks")

    assert list(Site(published).keys) == [json.loads(identity(tmp_path, "--json"))["keyid"]]
    assert identity(tmp_path, "--jwks") == published
    private = tmp_path / "run" / "web-bot-auth.pem"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    secret = private.read_text().splitlines()[1]
    assert secret not in published + identity(tmp_path) + identity(tmp_path, "--json")


def test_it_says_who_we_are_and_where_to_look(tmp_path: Path) -> None:
    signing = Signing(enabled=True, agent="https://crawler.example.org")
    settings_module.save(
        Settings(str(tmp_path), identity=Identity(contact="me@example.org"), signing=signing)
    )

    told = json.loads(identity(tmp_path, "--json"))

    assert told["user_agent"] == "crawl-platform/0.1 (+me@example.org)"
    assert told["directory"] == "https://crawler.example.org/.well-known/http-message-signatures-directory"
    assert told["signed"] is True
    assert "signed:      yes" in identity(tmp_path)


def test_doctor_finds_a_key_that_is_missing_or_can_be_read_by_others(tmp_path: Path) -> None:
    signing = Signing(enabled=True, agent="https://crawler.example.org")
    settings_module.save(
        Settings(str(tmp_path), identity=Identity(contact="me@example.org"), signing=signing)
    )

    def finding() -> dict[str, object]:
        told = json.loads(CliRunner().invoke(main, ["doctor", "--json", "--home", str(tmp_path)]).output)
        return next(found for found in told if found["check"] == "signed requests")

    assert not finding()["ok"]
    identity(tmp_path)
    assert finding()["ok"]
    (tmp_path / "run" / "web-bot-auth.pem").chmod(0o640)
    assert "chmod 600" in str(finding()["remedy"])
