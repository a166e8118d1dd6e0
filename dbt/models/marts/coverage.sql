with counted as (
    select
        host,
        count(*) as known,
        count(*) filter (state = 'fetched') as fetched,
        count(*) filter (state = 'queued') as queued,
        count(*) filter (state = 'gone') as gone,
        count(*) filter (state = 'dropped') as dropped
    from {{ ref('stg_urls') }}
    group by host
)

select
    host,
    coalesce(h.state, 'unknown') as state,
    coalesce(h.trusted, false) as trusted,
    p.promoted_at,
    h.delay_s,
    h.robots_status,
    coalesce(c.known, 0) as known,
    coalesce(c.fetched, 0) as fetched,
    coalesce(c.queued, 0) as queued,
    coalesce(c.gone, 0) as gone,
    coalesce(c.dropped, 0) as dropped,
    c.fetched / nullif(c.fetched + c.queued, 0) as fetched_share
from {{ ref('stg_hosts') }} as h
full join counted as c using (host)
left join {{ ref('stg_promotions') }} as p using (host)
order by host
