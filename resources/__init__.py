"""What Dagster's assets and sensors reach outside through: the lake, the fleet, the instance, the cadence."""
