-- beat prolongs a place in line or a shared hold that is live.
--
-- :name :id :try :ttl -> held, token; no row: it is not in the line
UPDATE {claim} SET until = {max}(until, {now} + :ttl)
WHERE name = :name AND id = :id AND try = :try AND until > {now}
RETURNING held, token
