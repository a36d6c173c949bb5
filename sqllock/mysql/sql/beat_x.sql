-- beat_x prolongs an exclusive hold that is live, unless somebody has the row,
-- as a guard does. It never shortens one. The row that was had is joined to, in
-- this order, so that no other is looked at; the limit keeps the two from being
-- made one.
--
-- :name :id :try :ttl -> token; no row: it is not held, or taken
{update} (
  SELECT name FROM {head} WHERE name = :name AND x_id = :id AND x_try = :try AND x_until > {now}
  LIMIT 1 FOR UPDATE SKIP LOCKED
) f STRAIGHT_JOIN {head} h ON h.name = f.name
SET h.x_until = GREATEST(h.x_until, {now} + :ttl + {primary}) + 0 * LAST_INSERT_ID(h.x_token + 1);
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0
