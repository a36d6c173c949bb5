-- idle_heads reads a page of head rows after a name and reports which can be cleaned up:
-- 1 for a row that is free, has no line and was not used for :ttl; 3 if it was used since;
-- 2 for a row with expired claims, whose line has to be advanced first.
--
-- :name :ttl :count -> name, 0, 1, 2 or 3
SELECT h.name, CASE
  WHEN h.x_until <= {now} AND h.used = 0 AND h.waiting = 0 THEN
    CASE WHEN h.x_since < {now} - :ttl AND h.x_until < {now} - :ttl THEN 1 ELSE 3 END
  WHEN EXISTS (SELECT 1 FROM {claim} c WHERE c.name = h.name AND c.until <= {now}) THEN 2
  ELSE 0 END
FROM {head} h WHERE h.name > :name ORDER BY h.name LIMIT :count
