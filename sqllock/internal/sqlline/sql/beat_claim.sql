-- beat_claim prolongs a live row of the claim table. The token is part of the key:
-- without it every beat would read the whole line.
--
-- :name :token :id :try :ttl -> held; no row: it is not there
UPDATE {claim} SET until = {max}(until, {now} + :ttl)
WHERE name = :name AND token = :token AND id = :id AND try = :try AND until > {now}
RETURNING held
