-- The last bid of each person on each auction. Of bids of one millisecond the first by price and the rest counts.
CREATE VIEW q18 AS
SELECT auction, bidder, price, channel, url, dateTime, extra
FROM (SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS rank_number FROM bid) AS R
WHERE rank_number <= 1;
