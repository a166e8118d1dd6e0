select
    host,
    state,
    coalesce(trusted, false) as trusted,
    delay as delay_s,
    robots_status
from {{ source('lake', 'hosts') }}
