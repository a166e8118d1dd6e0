"""What Dagster knows of the dbt project before anything runs, and what it costs to know it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crawl_platform.errors import ConfigurationError
from crawl_platform.settings import Settings
from resources import dbt_project
from resources.dbt_project import manifest, parse, project_folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project that may be changed, in place of the real one."""
    copy = Path(shutil.copytree(project_folder(), tmp_path / "dbt"))
    monkeypatch.setattr(dbt_project, "project_folder", lambda: copy)
    return copy


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Projects that dbt was asked about; it answers at once that there is nothing in them."""
    projects: list[Path] = []

    def answer(project: Path) -> dict[str, object]:
        projects.append(project)
        return {"nodes": {}, "sources": {}}

    dbt_project._manifest.cache_clear()
    monkeypatch.setattr(dbt_project, "parse", answer)
    yield projects
    dbt_project._manifest.cache_clear()


def test_dbt_is_asked_once_and_the_answer_is_kept_on_disk(project, asked, tmp_path):
    first = manifest((tmp_path / "cache",))
    dbt_project._manifest.cache_clear()  # as another process would begin

    assert manifest((tmp_path / "cache",)) == first
    assert asked == [project]


def test_dbt_is_asked_again_when_a_file_of_the_project_has_changed(project, asked, tmp_path):
    manifest((tmp_path / "cache",))
    model = project / "models" / "marts" / "cost.sql"
    model.write_text(model.read_text() + "-- changed\n")

    manifest((tmp_path / "cache",))

    assert len(asked) == 2


def test_where_the_users_cache_cannot_be_written_the_crawls_home_keeps_the_answer(project, asked, tmp_path):
    (tmp_path / "file").touch()

    manifest((tmp_path / "file" / "cache", tmp_path / "home" / "marts"))

    assert len(list((tmp_path / "home" / "marts").iterdir())) == 1


def test_where_nothing_can_be_written_it_says_so(project, asked, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(ConfigurationError, match="can't be kept"):
        manifest((tmp_path / "file" / "cache",))


@pytest.mark.long
def test_a_project_that_dbt_cannot_read_is_refused_in_dbts_words(project):
    (project / "models" / "marts" / "cost.sql").write_text("select * from {{ ref('nowhere') }}")

    with pytest.raises(ConfigurationError, match="nowhere"):
        parse(project)


@pytest.mark.long
def test_asking_dbt_writes_nothing_into_the_project(project):
    before = sorted(project.rglob("*"))

    parse(project)

    assert sorted(project.rglob("*")) == before


@pytest.mark.long
def test_loading_the_definitions_does_not_load_dbt(tmp_path):
    """dbt and dagster-dbt would double the time that each run takes to start."""
    program = (
        "import sys\n"
        "from crawl_platform.definitions import build_definitions\n"
        "from crawl_platform.settings import Settings\n"
        f"build_definitions(settings=Settings(home={str(tmp_path)!r})).resolve_asset_graph()\n"
        "print(sorted({'dbt', 'dagster_dbt'} & set(sys.modules)))"
    )

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert loaded.stdout == "[]\n"


def test_the_cache_is_the_users_and_the_crawls_home_stands_in_for_it(tmp_path):
    caches = dbt_project.cache_folders(Settings(home=str(tmp_path)).root)

    assert caches[0].is_relative_to(Path.home())
    assert caches[1] == tmp_path / "marts"
