-- touch_hold changes the row of an exclusive hold, unless a transaction guarded by the
-- hold has it locked, so that a snapshot from before can be distinguished from a new one. This
-- lock conflicts with that of a guard.
--
-- :name :id :token -> the expiry, which is what changed; no row: it is not held, or
--   locked
UPDATE {head} h SET x_until = h.x_until + 1
FROM (SELECT name FROM {head} WHERE name = :name AND x_id = :id AND x_token = :token
  AND x_until > {now} FOR UPDATE SKIP LOCKED) f
WHERE h.name = f.name
RETURNING h.x_until
