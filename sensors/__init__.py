"""Dagster sensors: what the fleet did becomes events, what was decided or asked for reaches the fleet.

Each tick does bounded work, advances a cursor and is safe to repeat. None of them starts a run.
"""
