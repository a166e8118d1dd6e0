select
    host,
    shard,
    url,
    state,
    snapshot_at,
    last_success_at,
    coalesce(group_id, 0) as group_id,
    cast(rate_a as double) as rate_a,
    cast(rate_b as double) as rate_b
from {{ source('lake', 'frontier') }}
