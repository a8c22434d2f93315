-- Persons who came and opened an auction within the same 10 seconds. The window is the one that ends at TS.
CREATE RSTREAM VIEW q8 AS
SELECT P.id, P.name
FROM (SELECT id, name FROM person [RANGE 10 SECONDS] GROUP BY id, name) AS P
JOIN (SELECT seller FROM auction [RANGE 10 SECONDS] GROUP BY seller) AS A
ON P.id = A.seller;
