-- expire_hold ends an exclusive hold that has expired, unless a guard is open. The row
-- is locked for update before it changes: a guard that comes then waits, and finds the
-- hold ended.
--
-- :name -> nothing
UPDATE {head}
SET x_id = '', x_session = '', x_live = '', x_note = '', x_until = 0, x_since = {now}, departed = departed + 1
WHERE name = :name AND x_id <> '' AND EXISTS (
  SELECT 1 FROM {head} b WHERE b.name = :name AND b.x_id <> '' AND b.x_until <= {now} FOR UPDATE SKIP LOCKED)
