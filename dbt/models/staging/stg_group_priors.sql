-- As the scheduler has it: the model's prior where it gives one, which is where little has been seen of a group.
select
    host,
    group_id,
    coalesce(c.prior_a, r.prior_a) as prior_a,
    coalesce(c.prior_b, r.prior_b) as prior_b
from {{ source('lake', 'change_rates') }} as r
full join {{ source('lake', 'cold_priors') }} as c using (host, group_id)
