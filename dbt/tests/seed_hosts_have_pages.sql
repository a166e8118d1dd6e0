select *
from {{ ref('coverage') }}
where state = 'seed' and known > 0 and fetched = 0
