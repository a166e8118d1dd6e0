with mart as (
    select sum(known) as known from {{ ref('coverage') }}
),

snapshot as (
    select count(*) as known from {{ source('lake', 'frontier') }}
)

select *
from mart
cross join snapshot
where coalesce(mart.known, 0) < snapshot.known
