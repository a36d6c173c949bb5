-- beat prolongs a place in line or a shared hold that is live. The token is the
-- place: without it every beat would read the whole line.
--
-- :name :token :id :try :ttl -> held, token; no row: it is not there
UPDATE {claim} SET until = {max}(until, {now} + :ttl)
WHERE name = :name AND token = :token AND id = :id AND try = :try AND until > {now}
RETURNING held, token
