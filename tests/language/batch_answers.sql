-- One query a line; each is a standing view and a plain DuckDB query over the same rows.
SELECT * FROM S
SELECT id, grp FROM S
SELECT K.id, X.grp FROM K JOIN T X0 ON K.grp = X0.key JOIN T AS X1 ON X1.key = K.grp, T AS X2, (SELECT 1 AS one, grp FROM K) X WHERE X.grp = K.grp AND X2.key = X.grp
SELECT id AS a, v + 1 AS b, -v AS c, v * 2 - 3 AS d, v / 2 AS e, v % 3 AS g, v // 2 AS h FROM S
SELECT d + 1 AS a, d * 2 AS b, d / 4 AS c, -d AS e, d * d AS g FROM S WHERE id < 8
SELECT f + 1 AS a, f * 2 AS b, f / 0 AS c, -f AS e FROM S
SELECT w + v AS a, w * 1 AS b, w - 1 AS c FROM S
SELECT id FROM S WHERE v > 5
SELECT id FROM S WHERE v >= 5 AND b
SELECT id FROM S WHERE NOT b OR v IS NULL
SELECT id FROM S WHERE v BETWEEN 0 AND 7
SELECT id FROM S WHERE v NOT BETWEEN 0 AND 7
SELECT id FROM S WHERE grp IN ('a', 'c')
SELECT id FROM S WHERE grp NOT IN ('a', 'c')
SELECT id FROM S WHERE grp IS NULL
SELECT id FROM S WHERE grp IS NOT NULL AND grp <> ''
SELECT id FROM S WHERE grp IS DISTINCT FROM 'a'
SELECT id FROM S WHERE grp IS NOT DISTINCT FROM NULL
SELECT id FROM S WHERE grp LIKE 'Ü%'
SELECT id FROM S WHERE grp ILIKE 'ün%' OR grp NOT LIKE '_'
SELECT id FROM S WHERE f = 0
SELECT id FROM S WHERE f > 1
SELECT id FROM S WHERE isnan(f) OR isinf(f)
SELECT id FROM S WHERE d = 2.25
SELECT id FROM S WHERE day > DATE '2024-03-02'
SELECT id FROM S WHERE moment >= TIMESTAMP '2024-03-01 00:00:00'
SELECT id, CASE WHEN v > 5 THEN 'high' WHEN v IS NULL THEN 'none' ELSE 'low' END AS level FROM S
SELECT id, CASE grp WHEN 'a' THEN 1 WHEN 'b' THEN 2 END AS code FROM S
SELECT CAST(v AS VARCHAR) AS a, v::DOUBLE AS b, CAST(d AS INTEGER) AS c, TRY_CAST(grp AS INTEGER) AS e FROM S WHERE id < 8
SELECT upper(grp) AS a, lower(grp) AS b, length(grp) AS c, reverse(grp) AS e, grp || '!' AS g, concat(grp, '-', id) AS h FROM S
SELECT substr(grp, 1, 2) AS a, substring(grp, 2) AS b, left(grp, 1) AS c, right(grp, 1) AS e, trim(' ' || grp || ' ') AS g FROM S
SELECT replace(grp, 'a', 'x') AS a, lpad(grp, 3, '*') AS b, rpad(grp, 3, '*') AS c, repeat(grp, 2) AS e, position('a' IN grp) AS g FROM S
SELECT contains(grp, 'n') AS a, starts_with(grp, 'Ü') AS b, split_part('x-y', '-', 2) AS c, regexp_replace(grp, '[a-c]', '#') AS e FROM S
SELECT abs(v) AS a, sign(v) AS b, ceil(f) AS c, floor(f) AS e, round(f, 1) AS g, sqrt(abs(v)) AS h FROM S WHERE id < 5
SELECT power(v, 2) AS a, exp(1) AS b, ln(id) AS c, log10(id) AS e, mod(id, 3) AS g, greatest(id, 5) AS h, least(id, v) AS i FROM S
SELECT coalesce(v, 0) AS a, nullif(v, 5) AS b, ifnull(grp, '-') AS c, if(b, 1, 0) AS e FROM S
SELECT year(moment) AS a, month(moment) AS b, day(moment) AS c, hour(moment) AS e, date_trunc('day', moment) AS g, extract(minute FROM moment) AS h FROM S
SELECT date_diff('hour', TIMESTAMP '2024-01-01', moment) AS a, dayname(day) AS b, epoch_us(moment) AS c, date_part('week', day) AS e FROM S
SELECT moment + INTERVAL '1' HOUR AS a, day + INTERVAL 1 DAY AS b, moment - INTERVAL '90 minutes' AS c FROM S
SELECT string_split('a-b', '-') AS a, md5(grp) AS b, sha256(grp) AS c, json_extract_string('{"x": 1}', '$.x') AS e FROM S
SELECT grp::BLOB AS raw FROM S WHERE id < 8
SELECT strftime(moment, '%Y/%m') AS a, make_date(2024, 1, id) AS b FROM S
SELECT 1 AS one, 'x' AS text, TRUE AS yes, 1.5 AS dec, 1e3 AS float FROM S
SELECT count(*) AS n FROM S
SELECT count(v) AS n, sum(v) AS s, avg(v) AS a, min(v) AS lo, max(v) AS hi FROM S
SELECT grp, count(*) AS n, count(v) AS m, sum(v) AS s, avg(v) AS a, min(v) AS lo, max(v) AS hi FROM S GROUP BY grp
SELECT grp, sum(d) AS s, avg(d) AS a, min(d) AS lo, max(d) AS hi FROM S GROUP BY grp
SELECT grp, sum(w) AS s, avg(w) AS a FROM S GROUP BY grp
SELECT grp, sum(f) AS s, min(f) AS lo, max(f) AS hi FROM S WHERE id NOT IN (5, 6) GROUP BY grp
SELECT sum(f) AS s, avg(f) AS a FROM S WHERE id <> 6
SELECT sum(f) AS s, min(f) AS lo, max(f) AS hi FROM S
SELECT sum(f) AS s FROM S WHERE id IN (2, 4)
SELECT grp, stddev(v) AS a, stddev_pop(v) AS b, stddev_samp(v) AS c, variance(v) AS e, var_pop(v) AS g, var_samp(v) AS h FROM S GROUP BY grp
SELECT grp, count(DISTINCT v) AS n FROM S GROUP BY grp
SELECT count(DISTINCT grp) AS n, count(DISTINCT b) AS m, count(DISTINCT f) AS o FROM S
SELECT min(DISTINCT v) AS a, max(DISTINCT v) AS b FROM S
SELECT grp, count(*) FILTER (WHERE v > 5) AS n, sum(v) FILTER (WHERE b) AS s FROM S GROUP BY grp
SELECT min(grp) AS a, max(grp) AS b, min(day) AS c, max(moment) AS e, min(b) AS g FROM S
SELECT grp, count(*) AS n FROM S GROUP BY grp HAVING count(*) > 1
SELECT grp FROM S GROUP BY grp HAVING sum(v) > 5 AND grp IS NOT NULL
SELECT count(*) AS n FROM S HAVING count(*) > 100
SELECT v % 2 AS odd, count(*) AS n FROM S GROUP BY v % 2
SELECT v % 2 AS odd, count(*) AS n FROM S GROUP BY odd
SELECT v % 2 AS odd, count(*) AS n FROM S GROUP BY 1
SELECT upper(grp) AS g, sum(v) + 1 AS s, sum(v) / count(*) AS q FROM S GROUP BY upper(grp)
SELECT grp, b, count(*) AS n FROM S GROUP BY grp, b
SELECT grp, CASE WHEN sum(v) > 10 THEN 'big' ELSE 'small' END AS size FROM S GROUP BY grp
SELECT f, count(*) AS n FROM S GROUP BY f
SELECT d, count(*) AS n FROM S GROUP BY d
SELECT day, count(*) AS n FROM S GROUP BY day
SELECT date_trunc('day', moment) AS x, count(*) AS n FROM S GROUP BY date_trunc('day', moment)
SELECT sum(b::INTEGER) AS n FROM S
SELECT DISTINCT grp FROM S
SELECT DISTINCT grp, v FROM S
SELECT DISTINCT f FROM S
SELECT DISTINCT count(*) AS n FROM S GROUP BY grp
SELECT grp FROM S UNION SELECT key FROM T
SELECT grp FROM S UNION ALL SELECT key FROM T
SELECT grp FROM S INTERSECT SELECT key FROM T
SELECT grp FROM S INTERSECT ALL SELECT key FROM T
SELECT grp FROM S EXCEPT SELECT key FROM T
SELECT grp FROM S EXCEPT ALL SELECT key FROM T
SELECT v FROM S UNION SELECT w FROM S
SELECT v FROM S UNION ALL SELECT d FROM S WHERE id < 8
(SELECT grp FROM S WHERE v > 5) UNION ALL (SELECT grp FROM S WHERE b) EXCEPT SELECT key FROM T
SELECT S.id, T.label FROM S JOIN T ON S.grp = T.key
SELECT S.id, T.label FROM S, T WHERE S.grp = T.key AND T.n > 1
SELECT S.id, T.label FROM S JOIN T ON S.grp = T.key AND S.v > T.n
SELECT S.id, T.label FROM S CROSS JOIN T
SELECT S.id, T.label FROM S JOIN T ON S.v > T.n
SELECT S.id, T.label FROM S LEFT JOIN T ON S.grp = T.key
SELECT S.id, T.label FROM S RIGHT JOIN T ON S.grp = T.key
SELECT S.id, T.label FROM S FULL OUTER JOIN T ON S.grp = T.key
SELECT S.id, T.label FROM S LEFT JOIN T ON S.grp = T.key AND T.n > 2
SELECT S.id FROM S LEFT JOIN T ON S.grp = T.key WHERE T.label IS NULL
SELECT K.grp, K.v, L.label FROM K JOIN L ON K.grp = L.key
SELECT K.grp, K.v, L.label FROM K LEFT JOIN L ON K.grp = L.key
SELECT K.v, L.key, L.label FROM K RIGHT JOIN L ON K.grp = L.key
SELECT K.grp, L.key, L.label FROM K FULL JOIN L ON K.grp = L.key
SELECT A.grp, B.grp AS other FROM K A JOIN K B ON A.v = B.v
SELECT A.grp, B.grp AS other FROM K A, K B WHERE A.v < B.v
SELECT key, X.label, Y.n FROM L X JOIN L Y USING (key)
SELECT X.label, T.label AS other FROM L X LEFT JOIN T USING (key)
SELECT * FROM L X JOIN L Y USING (key)
SELECT * FROM L X FULL JOIN T USING (key)
SELECT key, X.n, T.n AS m FROM L X RIGHT JOIN T USING (key)
SELECT key, count(*) AS n FROM L X FULL JOIN T USING (key) WHERE key <> 'a' GROUP BY key
SELECT X.*, Y.label FROM L X JOIN L Y USING (key, label) JOIN T USING (key)
SELECT A.grp, T.label FROM K A JOIN L B ON A.grp = B.key FULL JOIN T ON T.key = A.grp WHERE A.v > B.n
SELECT A.grp, T.label FROM K A LEFT JOIN L B ON A.grp = B.key JOIN T ON T.key = A.grp WHERE B.n IS NULL OR B.n > 1
SELECT K.grp, sum(T.n) AS s FROM K JOIN T ON K.grp = T.key GROUP BY K.grp
SELECT x.g, x.n FROM (SELECT grp AS g, count(*) AS n FROM S GROUP BY grp) x WHERE x.n > 1
SELECT n, count(*) AS groups FROM (SELECT grp, count(*) AS n FROM S GROUP BY grp) GROUP BY n
SELECT max(n) AS m, min(n) AS l, avg(n) AS a FROM (SELECT grp, count(*) AS n FROM S GROUP BY grp)
SELECT count(DISTINCT n) AS kinds FROM (SELECT grp, count(*) AS n FROM K GROUP BY grp)
WITH hot AS (SELECT * FROM S WHERE v > 5) SELECT grp, count(*) AS n FROM hot GROUP BY grp
WITH a AS (SELECT grp, v FROM S), b AS (SELECT grp, sum(v) AS s FROM a GROUP BY grp) SELECT * FROM b WHERE s > 5
WITH a AS (SELECT grp FROM K) SELECT x.grp FROM a x JOIN a y ON x.grp = y.grp
SELECT y.g FROM (SELECT x.g FROM (SELECT grp AS g FROM S) x) y
SELECT S.*, T.label FROM S JOIN T ON S.grp = T.key WHERE S.id = 2
SELECT "id" AS "Mixed Case", grp AS "select" FROM S
SELECT id, id FROM S
SELECT count(*) AS n, sum(v) AS s, max(v) AS m FROM K
SELECT v, count(*) AS n FROM K GROUP BY v
SELECT DISTINCT b FROM K
SELECT grp FROM K EXCEPT SELECT key FROM L
SELECT grp, v FROM K WHERE v > 3
SELECT * EXCLUDE (id, f) FROM S
SELECT S.* EXCEPT (grp), grp AS last FROM S
SELECT * REPLACE (v + 1 AS v, upper(grp) AS grp) FROM S
SELECT * EXCLUDE (f, w) REPLACE (coalesce(v, 0) AS v) RENAME (id AS number) FROM S
SELECT * EXCLUDE (K.grp) FROM K JOIN T ON K.grp = T.key
SELECT * EXCLUDE (key) LIKE '%e%' FROM T
SELECT K.id, X.key FROM K JOIN T AS X(key, note) ON K.grp = X.key
SELECT a, b FROM (SELECT id, grp, v FROM S) AS q(a, b)
SELECT q.a + 1 AS c, v FROM (SELECT id, grp, v FROM S) AS q(a, b) WHERE b = 'a'
WITH q(a, b) AS (SELECT id, grp FROM S) SELECT b, count(*) AS n, max(a) AS m FROM q GROUP BY b
SELECT id, grp FROM S UNION ALL BY NAME SELECT grp, v, id FROM S WHERE v > 5
SELECT id, day FROM S UNION BY NAME SELECT moment, id FROM S
SELECT grp, count(*) AS n, sum(v) AS s FROM S GROUP BY ALL
SELECT grp, v % 2 AS odd, sum(d) AS s FROM S GROUP BY ALL HAVING count(*) > 1
SELECT count(*) AS n FROM S GROUP BY ALL
SELECT grp AS g, upper(grp) AS u, 7 AS seven, max(v) AS m FROM S GROUP BY ALL
SELECT grp, count(*) AS n FROM S GROUP BY ROLLUP (grp)
SELECT grp, b, day, count(*) AS n, sum(v) AS s, avg(f) AS m FROM S WHERE id < 5 GROUP BY ROLLUP (grp, b, day)
SELECT grp, b, count(*) AS n, count(DISTINCT v) AS c FROM S GROUP BY CUBE (grp, b)
SELECT grp, b, min(v) AS l FROM S GROUP BY GROUPING SETS ((grp, b), (grp), (b), ())
SELECT grp, v % 2 AS odd, count(*) AS n FROM S GROUP BY GROUPING SETS (grp, v % 2)
SELECT b, grp, v, count(*) AS n FROM S GROUP BY b, ROLLUP (grp, v)
SELECT grp, b, count(*) AS n FROM S GROUP BY CUBE (grp), CUBE (b)
SELECT grp, b, day, count(*) AS n FROM S GROUP BY ROLLUP ((grp, b), day)
SELECT grp, b, count(*) AS n FROM S GROUP BY GROUPING SETS (ROLLUP (grp, b), b)
SELECT grp, b, GROUPING(grp) AS x, GROUPING_ID(grp, b) AS y, sum(v) AS s FROM S GROUP BY CUBE (grp, b)
SELECT grp, count(*) AS n FROM S GROUP BY ROLLUP (grp) HAVING GROUPING(grp) = 1 OR count(*) > 2
SELECT coalesce(grp, 'all') AS g, count(*) + 1 AS n FROM S GROUP BY GROUPING SETS ((grp), (grp), ())
SELECT upper(grp) AS g, count(*) AS n FROM S GROUP BY ROLLUP (1)
SELECT upper(grp) AS g, count(*) AS n FROM S GROUP BY ROLLUP (g)
SELECT count(*) AS n FROM S GROUP BY ()
SELECT grp, moment, max(day) AS d FROM S GROUP BY GROUPING SETS ((moment), (grp))
SELECT grp, b, count(*) AS n FROM S GROUP BY ROLLUP (grp, b) ORDER BY n DESC, grp, b LIMIT 3
SELECT id, v, row_number() OVER (PARTITION BY grp ORDER BY id) AS r FROM K WHERE v > (SELECT min(v) FROM K)
SELECT id, row_number() OVER (ORDER BY id) AS r, (SELECT max(v) FROM K) AS m FROM K QUALIFY r <= (SELECT count(*) FROM T)
SELECT grp, count(*) AS n, rank() OVER (ORDER BY count(*) DESC) AS r FROM S WHERE grp IN (SELECT key FROM T) GROUP BY grp
SELECT grp, count(*) AS n, rank() OVER (ORDER BY count(*) DESC) AS r FROM S GROUP BY ALL
SELECT id FROM S WHERE id IN (SELECT row_number() OVER (ORDER BY key) FROM T)
SELECT grp, b, count(*) AS n, dense_rank() OVER (ORDER BY count(*)) AS r FROM K GROUP BY CUBE (grp, b)
SELECT upper(grp) AS g, b, count(*) AS n, dense_rank() OVER (ORDER BY count(*)) AS r FROM K GROUP BY ROLLUP (1, b)
SELECT id FROM K WHERE v = (SELECT max(v) FROM K) ORDER BY id LIMIT 1
(SELECT id, v FROM S) ORDER BY v DESC, id LIMIT 3
SELECT id FROM ((SELECT id, v FROM S) ORDER BY v, id LIMIT 4) AS q
(SELECT id FROM S WHERE v > 5 UNION SELECT id FROM S WHERE v < 0) ORDER BY id LIMIT 2 OFFSET 1
SELECT 1 AS a, 'x' AS b, 2.50 AS c, NULL::DATE AS e
SELECT count(*) AS n, sum(3) AS s, max('q') AS m
SELECT 1 AS a WHERE 1 > 2
SELECT * FROM (VALUES (1, 'a', 1.5), (2, NULL, 20.25), (NULL, 'c', 3)) t
SELECT b, a + 1 AS c FROM (VALUES (1, 'a'), (2, 'b'), (2, 'b')) t(a, b) WHERE a > 1
VALUES (1, DATE '2024-02-29'), (2, NULL)
VALUES (5), (3), (4) ORDER BY 1 LIMIT 2
(VALUES (1), (2)) UNION ALL SELECT v FROM S
SELECT v FROM S EXCEPT VALUES (5), (7)
WITH t(k, label) AS (VALUES ('a', 1), ('b', 2), ('z', 3)) SELECT S.id, t.label FROM S JOIN t ON S.grp = t.k
SELECT t.k, count(S.id) AS n FROM (VALUES ('a'), ('b'), ('z')) t(k) LEFT JOIN S ON S.grp = t.k GROUP BY t.k
SELECT K.grp, t.x FROM K LEFT JOIN (VALUES ('a', 10), ('a', 11), ('c', 12)) t(g, x) ON K.grp = t.g
SELECT K.id, t.a FROM K, (VALUES (2), (6)) t(a) WHERE K.id > t.a
SELECT id FROM S WHERE v IN (VALUES (5), (9))
SELECT id, v NOT IN (VALUES (5), (NULL)) AS x FROM S
SELECT id, (SELECT v + 1) AS w FROM S
SELECT id FROM K WHERE EXISTS (SELECT 1 WHERE K.v > 4)
SELECT (SELECT max(v) FROM S) AS hi, (SELECT count(*) FROM K) AS n
SELECT t.a, (SELECT sum(v) FROM S WHERE S.id < t.a) AS s FROM (VALUES (3), (8), (0)) t(a)
SELECT max(a) AS m, string_agg(b, ',' ORDER BY b) AS s FROM (VALUES (1, 'x'), (7, 'w')) t(a, b)
SELECT a, row_number() OVER (ORDER BY a DESC) AS r, sum(a) OVER (ORDER BY a) AS s FROM (VALUES (3), (1), (2)) t(a)
SELECT DISTINCT a FROM (VALUES (1), (1), (NULL), (NULL)) t(a)
SELECT * FROM (VALUES ([1, 2], {'a': 1}), ([], {'a': NULL})) t(l, s)
SELECT * FROM (VALUES (1::TINYINT, 1::HUGEINT), (300, 2)) t(a, b)
SELECT S.id FROM S ANTI JOIN (VALUES ('a'), ('c')) t(g) ON S.grp = t.g
SELECT v + 1 AS a, a * 2 AS q, q - a AS c FROM S
SELECT v + 1 AS a, upper(grp) AS g FROM S WHERE a > 5 AND g = 'A'
SELECT v AS id, id + 1 AS next FROM S
SELECT grp AS g, count(*) AS n, n * 2 AS m, g || '!' AS h FROM S GROUP BY grp HAVING n > 1
SELECT id, sum(v) OVER (ORDER BY id) AS s, s - 1 AS t FROM K
SELECT * FROM range(5)
SELECT * FROM range(2, 11, 3) AS r(x) WHERE x > 2
SELECT * FROM generate_series(10, -3, -4) r(x)
SELECT * FROM range(3, 3)
SELECT S.id, r.x FROM S JOIN generate_series(1, 4) r(x) ON S.id = r.x
SELECT r.x, count(S.id) AS n FROM range(12) r(x) LEFT JOIN S ON S.v = r.x GROUP BY r.x
SELECT id, rank() OVER w AS r, row_number() OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW) AS n, sum(id) OVER w AS s FROM K WINDOW w AS (ORDER BY grp, id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)
SELECT id, lag(id) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND CURRENT ROW) AS l, cume_dist() OVER (ORDER BY v GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) AS c FROM K
TABLE S
TABLE T
SELECT id FROM S WHERE v = ANY([5, 7])
SELECT id, v = ANY([5, NULL]) AS a, grp = ANY(['a', 'c']) AS b FROM S
SELECT list_sort(['b', NULL, grp]) AS a, list_reverse_sort([v, NULL, 6]) AS b, list_sort([v, NULL, 6], 'DESC', 'NULLS FIRST') AS c FROM S
SELECT b, any_value(grp ORDER BY id DESC) AS x, first(grp ORDER BY id) AS y FROM S GROUP BY b
SELECT id, string_agg(grp, '/') OVER (PARTITION BY b ORDER BY id) AS x, any_value(grp) OVER (ORDER BY id DESC) AS y FROM K
SELECT id, quantile_cont(v, 0.25) OVER (PARTITION BY b) AS x, arg_max(grp, id) OVER (ORDER BY id) AS y, list(v) OVER (PARTITION BY b ORDER BY id) AS z FROM K
SELECT id, [x || grp FOR x IN ['a', NULL, 'b'] IF x <> 'b' OR id > 3] AS x, [i * v FOR i IN [id, 2]] AS y FROM S
