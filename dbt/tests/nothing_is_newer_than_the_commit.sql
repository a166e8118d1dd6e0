select
    f.fetch_id,
    f.started_at
from {{ ref('stg_fetches') }} as f
inner join {{ ref('built_from') }} as b on b.table_name = 'fetches' and b.commit_id is not null
where f.day >= cast(b.as_of as date) and f.started_at > b.as_of
