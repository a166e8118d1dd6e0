select
    host,
    day,
    fetches,
    wire_bytes,
    busy_s,
    pages,
    new_pages + changed as changes,
    wire_bytes / nullif(pages, 0) as bytes_per_page,
    busy_s / nullif(pages, 0) as seconds_per_page,
    fetches / nullif(new_pages + changed, 0) as fetches_per_change,
    wire_bytes / nullif(new_pages + changed, 0) as bytes_per_change,
    busy_s / nullif(new_pages + changed, 0) as seconds_per_change
from {{ ref('host_daily') }}
order by host, day
