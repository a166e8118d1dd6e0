"""What an operator may get wrong: settings, seeds, rights of files. It is refused in words, before anything starts."""

import contextlib
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.admission.politeness import Gates
from crawl_platform.bounds import ABOVE_ZERO
from crawl_platform.errors import ConfigurationError
from crawl_platform.fetch.signing import ensure_key
from crawl_platform.fleet.client import FleetClient
from crawl_platform.settings import CONFIG_NAME, Politeness, Settings, load

WRONG = {
    "no TOML": b"[politeness",
    "no text": b"\xff\xfe[",
    "nested without end": b"a = " + b"[" * 5_000,
    "a section that is none": b"[nope]\nx = 1",
    "a setting that is none": b"[fetch]\nslotz = 1",
    "a word for a number": b"[fetch]\nslots = 'many'",
    "a text for a list": b"[fetch]\nallow_networks = '127.0.0.0/8'",
    "a network that is none": b"[fetch]\nallow_networks = ['127.0.0.0/33']",
    "a network with host bits": b"[fetch]\nallow_networks = ['127.0.0.1/8']",
    "a name as name server": b"[fetch]\nnameservers = ['dns.test']",
    "a word as port": b"[fetch]\nnameservers = ['192.0.2.1:dns']",
    "a port that is none": b"[fetch]\nnameservers = ['192.0.2.1:99999']",
    "a rule for nobody": b"[[hosts]]\nmatch = ''",
    "a rule for a URL": b"[[hosts]]\nmatch = 'http://a.test/'",
    "a rule without hosts": b"[[hosts]]\nfrontier.max_depth = 1",
    "a header in the contact": b'[identity]\ncontact = "a@b.test\\r\\nX-Injected: 1"',
    "two words as agent": b"[identity]\nagent = 'my crawler'",
    "no agent": b"[identity]\nagent = ''",
}
BROKEN_PROMISES = {
    "no delay": b"[politeness]\nhost_delay = 0",
    "a delay that is no number": b"[politeness]\nhost_delay = nan",
    "an endless delay": b"[politeness]\naddress_delay = inf",
    "a negative delay": b"[politeness]\naddress_delay = -1",
    "no delay for one host": b"[[hosts]]\nmatch = 'a.test'\npoliteness.host_delay = 0",
    "no number for one host": b"[[hosts]]\nmatch = '*.a.test'\npoliteness.host_delay = nan",
    "crawl-delays ignored": b"[politeness]\ncrawl_delay_cap = 0",
    "no back-off": b"[politeness]\nbackoff_cap = 0",
    "robots.txt never kept": b"[politeness]\nrobots_ttl = 0",
    "a deadline that never comes": b"[fetch]\ntotal_timeout = nan",
    "no deadline": b"[fetch]\nread_timeout = inf",
    "a cap below nothing": b"[fetch]\nbody_cap = -1",
    "a fence that never closes": b"[fleet]\nsilence_limit = nan",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=list(WRONG))
def test_a_file_of_settings_that_is_wrong_is_refused_in_words(tmp_path: Path, text: bytes) -> None:
    (tmp_path / CONFIG_NAME).write_bytes(text)

    with pytest.raises(ConfigurationError):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[politeness]\nhost_dealy = 1", "politeness.host_dealy is no setting; did you mean 'host_delay'?"),
        (b"[politness]\nhost_delay = 1", "politness is no setting; did you mean 'politeness'?"),
        (b"[payment]\nzzz = 1", "payment.zzz is no setting; there are: currency, max_price, "),
        (b"[[identities]]\nnam = 'a'", "identities.nam is no setting; did you mean 'name'?"),
        (
            b"[[hosts]]\nmatch = 'a.test'\nfrontier.max_dept = 1",
            "frontier: max_dept is no setting; did you mean 'max_depth'?",
        ),
        (b"[fetch]\nslots = 'many'", "Expected `int`, got `str` - at `$.fetch.slots`"),
    ],
)
def test_a_misspelt_setting_is_told_with_those_that_there_are(tmp_path: Path, text: bytes, said: str) -> None:
    (tmp_path / CONFIG_NAME).write_bytes(text)

    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path)

    assert said in str(refused.value)


@pytest.mark.parametrize("text", BROKEN_PROMISES.values(), ids=list(BROKEN_PROMISES))
def test_settings_that_would_break_a_promise_are_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / CONFIG_NAME).write_bytes(text)

    with pytest.raises(ConfigurationError):
        load(tmp_path)


def test_ablation_a_delay_that_is_no_number_would_be_none() -> None:
    gates = Gates(Politeness(host_delay=float("nan"), address_delay=float("nan")), 0.0)
    gates.take_host("a.test", 10.0)
    gates.end("a.test", None, 10.0, 0.0)

    assert not gates.host_ready_at("a.test") > 10.0


@given(st.binary(max_size=200))
def test_whatever_stands_in_the_file_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: bytes
) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / CONFIG_NAME).write_bytes(text)

    with contextlib.suppress(ConfigurationError):
        assert load(home).politeness.host_delay > 0


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / CONFIG_NAME).mkdir()

    with pytest.raises(ConfigurationError, match="can't be read"):
        load(tmp_path)


def test_the_defaults_keep_all_promises(tmp_path: Path) -> None:
    assert load(tmp_path) == Settings(home=str(tmp_path))


def test_every_setting_with_a_bound_exists() -> None:
    settings = Settings(home="")

    assert {
        (section, name)
        for section, names in ABOVE_ZERO.items()
        for name in names
        if not hasattr(getattr(settings, section), name)
    } == set()


@pytest.mark.parametrize(
    "seed",
    [
        "ftp://a.test/",
        "file:///etc/passwd",
        "javascript://a.test/%0Aalert(1)",
        "http://",
        "http://[::1",
        "a b",
        "",
        "\0",
        "http://a.test:99999/",
        "http://" + "a" * 70_000 + "/",
        "http://" + "a" * 64 + ".test/",
        "http://*.test/",
        "http://a..b.test/",
        "http://a!b.test/",
    ],
)
def test_a_seed_that_is_no_web_address_is_refused(tmp_path: Path, seed: str) -> None:
    client = FleetClient(tmp_path / "nats.json", 64)

    with pytest.raises(ConfigurationError, match="not a URL or host"):
        client.seed(["https://fine.test/", seed])


def test_secrets_on_disk_are_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "run" / "signing.pem"
    ensure_key(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
