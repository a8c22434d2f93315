-- The auctions with the most bids in the last 10 seconds, every 2 seconds.
CREATE RSTREAM VIEW q5 AS
SELECT AuctionBids.auction, AuctionBids.num
FROM (
  SELECT auction, count(*) AS num FROM bid [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY auction
) AS AuctionBids
JOIN (
  SELECT max(CountBids.num) AS maxn
  FROM (SELECT auction, count(*) AS num FROM bid [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY auction) AS CountBids
) AS MaxBids
ON AuctionBids.num >= MaxBids.maxn;
