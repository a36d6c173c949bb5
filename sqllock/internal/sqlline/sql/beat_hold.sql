-- beat_hold prolongs a live exclusive hold. It never shortens one.
--
-- :name :id :try :ttl -> token; no row: it is not held
UPDATE {head} SET x_until = {max}(x_until, {now} + :ttl)
WHERE name = :name AND x_id = :id AND x_try = :try AND x_until > {now}
RETURNING x_token
