"""Where the steps of a run are executed: in the run's own process, or in pods of their own on Kubernetes.

Which of the two, and what each step may use, is the deployment's business: a file that the chart writes
(`deploy/helm`), so that an asset's memory can be raised without touching its code.
"""

from pathlib import Path
from typing import Any

import dagster as dg
import yaml  # type: ignore[import-untyped]
from dagster._config import process_config

from crawl_platform.errors import ConfigurationError

EXECUTOR_VARIABLE = "CRAWL_EXECUTOR_FILE"


def executor_of(file: str | None) -> dg.ExecutorDefinition:
    """The executor of every job. Without a `file` steps run one after the other in the run's process.

    The file is the configuration of dagster-k8s' `k8s_job_executor`, as YAML: `per_step_k8s_config` holds
    what single assets (by name) need. Raises `ConfigurationError` if it can't be read or is not one.
    """
    if not file:
        return dg.in_process_executor
    from dagster_k8s import k8s_job_executor  # two seconds of imports, needed here only

    return k8s_job_executor.configured(_checked(Path(file), k8s_job_executor), name="k8s_job")


def _checked(path: Path, executor: dg.ExecutorDefinition) -> dict[str, Any]:
    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{EXECUTOR_VARIABLE}: {path} can't be read: {error}") from error
    outcome = process_config(executor.config_schema.config_type, config)
    if not outcome.success:
        errors = "; ".join(error.message for error in outcome.errors or [])
        raise ConfigurationError(f"{EXECUTOR_VARIABLE}: {path} is not an executor's configuration: {errors}")
    return dict(config)
