WITH last AS (SELECT least((SELECT max(dateTime) FROM person), (SELECT max(dateTime) FROM auction)) AS t),
p AS (SELECT DISTINCT id, name, epoch_us(dateTime) // 10000000 AS w FROM person),
a AS (SELECT DISTINCT seller, epoch_us(dateTime) // 10000000 AS w FROM auction)
SELECT make_timestamp((p.w + 1) * 10000000) AS TS, id, name FROM p JOIN a ON id = seller AND p.w = a.w, last
WHERE make_timestamp((p.w + 1) * 10000000) <= t
