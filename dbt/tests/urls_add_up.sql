select *
from {{ ref('coverage') }}
where fetched > known or known <> fetched + queued + gone + dropped
