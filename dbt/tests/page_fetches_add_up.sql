select *
from {{ ref('host_daily') }}
where
    page_fetches <> successes + redirects + errors
    or errors <> errors_client + errors_pushback + errors_server + errors_dns + errors_connection
    + errors_malformed + errors_internal
    or page_fetches > fetches
    or pages > successes
