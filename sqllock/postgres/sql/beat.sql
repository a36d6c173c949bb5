-- beat prolongs a place in line or a shared hold that is live, unless somebody
-- has the row: one that waits would keep the rest of the flight waiting.
--
-- :name :token :id :try :ttl -> held, token; no row: it is not there, or taken
UPDATE {claim} c SET until = greatest(c.until, {now} + :ttl)
FROM (SELECT token FROM {claim} WHERE name = :name AND token = :token AND id = :id AND try = :try
  AND until > {now} FOR NO KEY UPDATE SKIP LOCKED) f
WHERE c.name = :name AND c.token = f.token
RETURNING c.held, c.token
