SELECT A.*, B.auction, B.bidder, B.price, B.dateTime AS bid_dateTime, B.extra AS bid_extra
FROM auction AS A, bid AS B
WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
QUALIFY row_number() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime, B.bidder, B.channel, B.url, B.extra) = 1
