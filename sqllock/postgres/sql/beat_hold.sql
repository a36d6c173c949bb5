-- beat_hold prolongs a live exclusive hold, unless a transaction has the row locked.
-- The lock of a guard does not conflict with this one. It never shortens an expiry.
--
-- :name :id :try :ttl -> token; no row: it is not held, or locked
UPDATE {head} h SET x_until = greatest(h.x_until, {now} + :ttl)
FROM (SELECT name FROM {head} WHERE name = :name AND x_id = :id AND x_try = :try
  AND x_until > {now} FOR NO KEY UPDATE SKIP LOCKED) f
WHERE h.name = f.name AND {durable}
RETURNING h.x_token
