with mart as (
    select sum(fetches) as fetches, sum(wire_bytes) as wire_bytes from {{ ref('host_daily') }}
),

lake as (
    select count(*) as fetches, sum(wire_bytes) as wire_bytes
    from {{ source('lake', 'fetches') }}
    where date >= getvariable('first_day')
)

select *
from mart
cross join lake
where
    coalesce(mart.fetches, 0) <> lake.fetches
    or coalesce(mart.wire_bytes, 0) <> coalesce(lake.wire_bytes, 0)
