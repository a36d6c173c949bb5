-- guard_mark_x changes an exclusive hold's row, unless a transaction that is
-- guarded by the hold has it, so that a view of the database from before is told
-- from one that is new. The row is had as in beat_x.
--
-- :name :id :token -> the expiry, which is what changed; no row: it is not held, or taken
{update} (
  SELECT name FROM {head} WHERE name = :name AND x_id = :id AND x_token = :token AND x_until > {now}
  LIMIT 1 FOR UPDATE SKIP LOCKED
) f STRAIGHT_JOIN {head} h ON h.name = f.name
SET h.x_until = LAST_INSERT_ID(h.x_until + 2 + {primary}) - 1;
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0
