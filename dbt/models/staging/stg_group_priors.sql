-- What has been seen of a group counts before what a model thinks of it.
select
    host,
    group_id,
    coalesce(r.prior_a, c.prior_a) as prior_a,
    coalesce(r.prior_b, c.prior_b) as prior_b
from {{ source('lake', 'change_rates') }} as r
full join {{ source('lake', 'cold_priors') }} as c using (host, group_id)
