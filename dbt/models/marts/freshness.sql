-- A page's change rate is believed to be Gamma(a, b): the prior of its group (or of a page of which nothing is known)
-- plus the page's own increments. It is still as fetched after t days with probability (b / (b + t)) ^ a.
with believed as (
    select
        u.host,
        greatest(epoch(getvariable('as_of')) - epoch(u.last_success_at), 0) / 86400 as age_days,
        u.rate_a <> 0 or u.rate_b <> 0 as is_measured,
        coalesce(p.prior_a, getvariable('prior_a')) + u.rate_a as a,
        coalesce(p.prior_b, getvariable('prior_b')) + u.rate_b as b
    from {{ ref('stg_urls') }} as u
    left join {{ ref('stg_group_priors') }} as p using (host, group_id)
    where u.state = 'fetched' and u.last_success_at is not null
)

select
    host,
    getvariable('as_of') as as_of,
    count(*) as pages,
    count(*) filter (is_measured) as measured_pages,
    sum(pow(b / (b + age_days), a)) as fresh_pages,
    avg(pow(b / (b + age_days), a)) as fresh_share,
    avg(a / b) as changes_per_day,
    median(age_days) as age_p50_days,
    max(age_days) as age_max_days
from believed
group by host
order by host
