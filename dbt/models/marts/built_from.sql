select
    table_name,
    version,
    commit_id,
    as_of
from {{ ref('stg_built_from') }}
order by table_name
