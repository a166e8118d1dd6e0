select
    host,
    max(decided_at) as promoted_at
from {{ source('lake', 'promotions') }}
group by host
