-- beat_x prolongs an exclusive hold that is live, unless somebody has the row.
-- Guards do not: theirs is a lock that this one passes. It never shortens one.
--
-- :name :id :try :ttl -> token; no row: it is not held, or taken
UPDATE {head} h SET x_until = greatest(h.x_until, {now} + :ttl)
FROM (SELECT name FROM {head} WHERE name = :name AND x_id = :id AND x_try = :try
  AND x_until > {now} FOR NO KEY UPDATE SKIP LOCKED) f
WHERE h.name = f.name
RETURNING h.x_token
