-- beat_hold_wait prolongs a live exclusive hold as beat_hold does, but waits for the
-- row's lock.
--
-- :name :id :try :ttl -> token; no row: it is not held
UPDATE {head}
SET x_until = GREATEST(x_until, {now} + :ttl + {primary}) + 0 * LAST_INSERT_ID(x_token + 1)
WHERE name = :name AND x_id = :id AND x_try = :try AND x_until > {now};
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0
