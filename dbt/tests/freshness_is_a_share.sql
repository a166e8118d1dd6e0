select
    f.host,
    f.fresh_share,
    f.pages,
    c.fetched
from {{ ref('freshness') }} as f
left join {{ ref('coverage') }} as c using (host)
where f.fresh_share not between 0 and 1 or f.pages > c.fetched or not isfinite(f.fresh_share)
