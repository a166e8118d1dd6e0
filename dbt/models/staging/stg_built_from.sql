select
    table_name,
    version,
    commit_id,
    as_of
from {{ source('lake', 'commits') }}
