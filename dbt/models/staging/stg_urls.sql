-- Every known URL as it stands at the commit: the last snapshot of its shard, and what was fetched since.
-- The first conditions on `day` keep the scan of `fetches` to the days that can matter.
with shots as (
    select
        shard,
        max(snapshot_at) as snapshot_at
    from {{ ref('stg_frontier') }}
    group by shard
),

later as (
    select
        f.host,
        f.url,
        max(f.started_at) filter (f.outcome_class = 'success') as last_success_at,
        arg_max(f.outcome_class, f.started_at) as outcome_class,
        arg_max(f.outcome, f.started_at) as outcome,
        arg_max(f.group_id, f.started_at) as group_id,
        arg_max(f.rate_a, f.started_at) filter (f.outcome_class = 'success') as rate_a,
        arg_max(f.rate_b, f.started_at) filter (f.outcome_class = 'success') as rate_b
    from {{ ref('stg_fetches') }} as f
    left join shots using (shard)
    where
        f.day >= getvariable('snapshot_day')
        and f.is_page
        and (shots.snapshot_at is null or f.ended_at > shots.snapshot_at)
    group by f.host, f.url
)

select
    host,
    url,
    case
        when l.outcome_class in ('success', 'redirect') then 'fetched'
        when l.outcome_class = 'client' then 'gone'
        when l.outcome = 'unsafe_address' then 'dropped'
        else coalesce(s.state, 'queued')
    end as state,
    coalesce(l.last_success_at, s.last_success_at) as last_success_at,
    coalesce(l.group_id, s.group_id) as group_id,
    coalesce(l.rate_a, s.rate_a, 0) as rate_a,
    coalesce(l.rate_b, s.rate_b, 0) as rate_b
from {{ ref('stg_frontier') }} as s
full join later as l using (host, url)
