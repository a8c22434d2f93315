-- All bids with their day and minute; the original writes them to partitioned files.
CREATE VIEW q10 AS
SELECT auction, bidder, price, dateTime, extra,
  strftime(dateTime, '%Y-%m-%d') AS day, strftime(dateTime, '%H:%M') AS minute
FROM bid;
