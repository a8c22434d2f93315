-- Passes every bid on: what the engine costs by itself.
CREATE VIEW q0 AS
SELECT auction, bidder, price, dateTime, extra FROM bid;
