-- touch_hold changes the row of an exclusive hold, unless a transaction guarded by the
-- hold has it locked, so that a snapshot from before can be distinguished from a new one. The
-- row is locked as in beat_hold.
--
-- :name :id :token -> the expiry, which is what changed; no row: it is not held, or
--   locked
{update} (
  SELECT name FROM {head} WHERE name = :name AND x_id = :id AND x_token = :token AND x_until > {now}
  LIMIT 1 FOR UPDATE SKIP LOCKED
) f STRAIGHT_JOIN {head} h ON h.name = f.name
SET h.x_until = LAST_INSERT_ID(h.x_until + 2 + {primary}) - 1;
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0
