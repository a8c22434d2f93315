-- Bids with a value of a table that does not change.
CREATE VIEW q13 AS
SELECT B.auction, B.bidder, B.price, B.dateTime, S.value
FROM bid AS B JOIN side_input AS S ON B.auction % 10000 = S.key;
