-- The highest bids of every 10 seconds. The window is half open: a bid at its very end belongs to the next one.
CREATE RSTREAM VIEW q7 AS
SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra
FROM bid [RANGE 10 SECONDS] AS B
JOIN (SELECT max(price) AS maxprice FROM bid [RANGE 10 SECONDS]) AS B1 ON B.price = B1.maxprice;
