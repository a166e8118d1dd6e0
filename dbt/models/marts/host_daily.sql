-- Window over all kinds of fetches: robots and sitemaps keep their distance like pages do.
with fetched as (
    select
        *,
        date_diff('microsecond', lag(ended_at) over (partition by host order by started_at, fetch_id), started_at)
        / 1e6 as gap_s
    from {{ ref('stg_fetches') }}
    where day >= getvariable('first_day')
)

select
    host,
    day,
    count(*) as fetches,
    count(*) filter (is_page) as page_fetches,
    count(distinct url) filter (is_page and outcome_class = 'success') as pages,
    count(*) filter (is_page and outcome_class = 'success') as successes,
    count(*) filter (is_page and outcome = 'not_modified') as not_modified,
    count(*) filter (is_page and outcome_class = 'redirect') as redirects,
    count(*) filter (is_page and outcome_class not in ('success', 'redirect')) as errors,
    count(*) filter (is_page and outcome_class = 'client') as errors_client,
    count(*) filter (is_page and outcome_class = 'pushback') as errors_pushback,
    count(*) filter (is_page and outcome_class = 'server') as errors_server,
    count(*) filter (is_page and outcome_class = 'dns') as errors_dns,
    count(*) filter (is_page and outcome_class = 'connection') as errors_connection,
    count(*) filter (is_page and outcome_class = 'malformed') as errors_malformed,
    count(*) filter (is_page and outcome_class = 'internal') as errors_internal,
    count(*) filter (is_page and outcome_class = 'success' and is_first) as new_pages,
    count(*) filter (is_page and outcome_class = 'success' and changed) as changed,
    cast(sum(wire_bytes) as bigint) as wire_bytes,
    cast(sum(body_bytes) as bigint) as body_bytes,
    coalesce(sum(duration_ms), 0) / 1000 as busy_s,
    quantile_cont(duration_ms, 0.5) as latency_p50_ms,
    quantile_cont(duration_ms, 0.95) as latency_p95_ms,
    min(gap_s) as gap_min_s,
    quantile_cont(gap_s, 0.5) as gap_p50_s
from fetched
group by host, day
order by host, day
