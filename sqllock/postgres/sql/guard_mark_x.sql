-- guard_mark_x changes an exclusive hold's row, unless a transaction that is
-- guarded by the hold has it, so that a view of the database from before is told
-- from one that is new. The lock is the one that does not pass guards.
--
-- :name :id :token -> the expiry, which is what changed; no row: it is not held, or taken
UPDATE {head} h SET x_until = h.x_until + 1
FROM (SELECT name FROM {head} WHERE name = :name AND x_id = :id AND x_token = :token
  AND x_until > {now} FOR UPDATE SKIP LOCKED) f
WHERE h.name = f.name
RETURNING h.x_until
