-- Who sells in a category and lives in one of three states. Two append-only tables: both sides are kept.
CREATE VIEW q3 WITH (unbounded_state = true) AS
SELECT P.name, P.city, P.state, A.id
FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA');
