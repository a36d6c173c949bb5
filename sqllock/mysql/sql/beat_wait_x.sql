-- beat_wait_x prolongs an exclusive hold that is live, as beat_x does, but waits
-- for whoever has the row.
--
-- :name :id :try :ttl -> token; no row: it is not held
UPDATE {head}
SET x_until = GREATEST(x_until, {now} + :ttl + {primary}) + 0 * LAST_INSERT_ID(x_token + 1)
WHERE name = :name AND x_id = :id AND x_try = :try AND x_until > {now};
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0
