-- The ten highest bids of each auction.
CREATE VIEW q19 AS
SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid) AS R
WHERE rank_number <= 10;
