-- What a fetch ended in is told by class; a class is where it failed. Outcomes are listed in
-- crawl_platform/fetch/outcome.py; one that is missing here fails the test page_fetches_add_up.
select
    fetch_id,
    host,
    shard,
    url,
    date as day,
    kind = 'page' as is_page,
    started_at,
    started_at + to_microseconds(cast(1000 * coalesce(duration_ms, 0) as bigint)) as ended_at,
    cast(duration_ms as double) as duration_ms,
    outcome,
    case
        when outcome in ('ok', 'not_modified') then 'success'
        when outcome = 'redirect' then 'redirect'
        when outcome in (
            'not_found', 'gone', 'unauthorized', 'payment_required', 'client_error', 'bad_redirect', 'unsafe_redirect',
            'bad_url'
        ) then 'client'
        when outcome in ('rate_limited', 'unavailable') then 'pushback'
        when outcome = 'server_error' then 'server'
        when outcome in ('no_such_host', 'dns_failure', 'dns_timeout', 'unsafe_address') then 'dns'
        when outcome in (
            'connect_refused', 'connect_timeout', 'tls_failure', 'tls_timeout', 'first_byte_timeout', 'read_timeout',
            'too_slow', 'connection_lost', 'connection_stale'
        ) then 'connection'
        when outcome in ('bad_http', 'headers_too_large', 'response_flood', 'bad_encoding') then 'malformed'
        when outcome = 'internal_error' then 'internal'
    end as outcome_class,
    coalesce(changed, false) as changed,
    previous_success_at is null as is_first,
    coalesce(wire_bytes, 0) as wire_bytes,
    coalesce(body_bytes, 0) as body_bytes,
    coalesce(group_id, 0) as group_id,
    cast(rate_a as double) as rate_a,
    cast(rate_b as double) as rate_b
from {{ source('lake', 'fetches') }}
