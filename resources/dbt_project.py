"""Where the dbt project is, and what dbt says is in it.

Dagster needs to know the models and tests before anything runs. dbt takes four seconds to say so, so the
answer is kept on disk under a digest of the project's files: it is asked once per change and machine, also by
a fresh clone, and without a network.
"""

import functools
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import xxhash

from crawl_platform.errors import ConfigurationError

HERE = Path(__file__).resolve().parent
ENGINES = ("dbt-core", "dbt-duckdb")
KEPT = ("nodes", "sources")
"""Parts of dbt's manifest that say which models and tests there are; the rest is dbt's own macros."""

Manifest = dict[str, Any]


def project_folder() -> Path:
    """`dbt/` beside the code, or the copy of it in an installed wheel."""
    for folder in (HERE.parent / "dbt", HERE / "dbt"):
        if (folder / "dbt_project.yml").exists():
            return folder
    raise ConfigurationError(f"there is no dbt project beside {HERE}: the installation is not whole")


def dbt_command() -> Path:
    """The `dbt` of this very environment, whatever PATH says."""
    return Path(sys.executable).with_name("dbt")


def cache_folders(home: Path) -> tuple[Path, ...]:
    """Where a manifest may be kept: the user's cache, or the crawl's home where there is none."""
    try:
        return Path.home() / ".cache" / "crawl-platform", home / "marts"
    except RuntimeError:  # a container's user may have no home at all
        return (home / "marts",)


def manifest(caches: tuple[Path, ...]) -> Manifest:
    """Models, tests and sources of the project, from the first of `caches` that has them or can keep them.

    Raises `ConfigurationError` if dbt can't read the project or no cache can be written.
    """
    return _manifest(project_folder(), _digest(project_folder()), caches)


@functools.lru_cache(maxsize=4)
def _manifest(project: Path, digest: str, caches: tuple[Path, ...]) -> Manifest:
    name = f"marts-{digest}.json"
    for cache in caches:
        if (cache / name).exists():
            found: Manifest = msgspec.json.decode((cache / name).read_bytes())
            return found
    parsed = parse(project)
    _keep(parsed, [cache / name for cache in caches])
    return parsed


def parse(project: Path) -> Manifest:
    """Ask dbt. Writes nothing into the project. Raises `ConfigurationError` with dbt's words if it fails."""
    with tempfile.TemporaryDirectory() as scratch:
        place = ["--project-dir", str(project), "--profiles-dir", str(project)]
        output = ["--target-path", scratch, "--log-path", scratch]
        done = subprocess.run(
            [str(dbt_command()), "--quiet", "parse", *place, *output], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise ConfigurationError(f"dbt can't read {project}: {done.stdout.strip()} {done.stderr.strip()}")
        whole = msgspec.json.decode((Path(scratch) / "manifest.json").read_bytes())
    return {part: whole[part] for part in KEPT}


def _digest(project: Path) -> str:
    """Changes with every file of the project and with dbt itself."""
    digest = xxhash.xxh3_64()
    for engine in ENGINES:
        digest.update(f"{engine} {version(engine)}\n".encode())
    for path in sorted(project.rglob("*")):
        if path.suffix in (".sql", ".yml", ".md"):
            digest.update(f"{path.relative_to(project)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _keep(manifest: Manifest, places: list[Path]) -> None:
    """Write to the first place that can be written, whole or not at all."""
    failed: list[OSError] = []
    for path in places:
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(msgspec.json.encode(manifest))
            draft.replace(path)
        except OSError as error:
            failed.append(error)
        else:
            return
    raise ConfigurationError(f"dbt's manifest can't be kept anywhere: {'; '.join(map(str, failed))}")
