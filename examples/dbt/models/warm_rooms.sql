select room, temp from {{ source('live', 'Hot') }} where temp > 85
