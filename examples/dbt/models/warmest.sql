select max(temp) as temp from {{ ref('warm_rooms') }}
