-- The average of the winning bids of a seller's last eleven auctions, at each of them. Flink cannot run it.
CREATE VIEW q6 WITH (unbounded_state = true) AS
SELECT Q.seller,
  avg(Q.price) OVER (PARTITION BY Q.seller ORDER BY Q.bidTime, Q.id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS avg_price
FROM (
  SELECT A.id, A.seller, B.price, B.dateTime AS bidTime,
    row_number() OVER (PARTITION BY A.id, A.seller ORDER BY B.price DESC, B.dateTime) AS rownum
  FROM auction AS A, bid AS B
  WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
) AS Q
WHERE Q.rownum <= 1;
