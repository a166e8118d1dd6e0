"""Makes Dagster's databases ready for the processes that share them: `python -m resources.dagster_storage`.

A process of its own, ended before those start. At the first start they would race: both stamp the same schema
version, and no process starts on that storage again.
"""

from dagster import DagsterInstance, RunsFilter
from dagster._core.storage.dagster_run import IN_PROGRESS_RUN_STATUSES


def prepare_storage() -> None:
    """Create what is missing in DAGSTER_HOME and report runs that a killed Dagster left behind as failed.

    Whatever is unfinished now was left behind: runs live in a code server's children, and ours is not started yet.
    """
    with DagsterInstance.get() as instance:
        for run in instance.get_runs(RunsFilter(statuses=IN_PROGRESS_RUN_STATUSES)):
            instance.report_run_failed(run, message="Dagster was killed during this run.")


if __name__ == "__main__":
    prepare_storage()
