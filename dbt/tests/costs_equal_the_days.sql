with costs as (
    select sum(fetches) as fetches, sum(wire_bytes) as wire_bytes, sum(busy_s) as busy_s from {{ ref('cost') }}
),

days as (
    select sum(fetches) as fetches, sum(wire_bytes) as wire_bytes, sum(busy_s) as busy_s from {{ ref('host_daily') }}
)

select *
from costs
cross join days
where
    costs.fetches is distinct from days.fetches
    or costs.wire_bytes is distinct from days.wire_bytes
    or abs(costs.busy_s - days.busy_s) > 1e-6 * greatest(days.busy_s, 1)
