"""Dagster assets, one file per group. Short, idempotent computations over named versions of Delta tables."""
