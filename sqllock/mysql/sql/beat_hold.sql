-- beat_hold prolongs a live exclusive hold, unless a transaction, such as a guarded
-- one, has the row locked. It never shortens one. The locked row is joined first, in
-- this order, so that no other row is examined; the limit keeps the optimizer from
-- merging the two.
--
-- :name :id :try :ttl -> token; no row: it is not held, or locked
{update} (
  SELECT name FROM {head} WHERE name = :name AND x_id = :id AND x_try = :try AND x_until > {now}
  LIMIT 1 FOR UPDATE SKIP LOCKED
) f STRAIGHT_JOIN {head} h ON h.name = f.name
SET h.x_until = GREATEST(h.x_until, {now} + :ttl + {primary}) + 0 * LAST_INSERT_ID(h.x_token + 1);
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0
