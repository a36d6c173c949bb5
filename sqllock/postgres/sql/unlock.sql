-- unlock is release_hold as a batch by itself. Its commit does not wait for the disk:
-- if the server forgets it in a crash, the name is free at its expiry, and a later
-- grant on the name writes the log up to here anyway.
--
-- :name :id :maxtry -> the number of waiting claims; no row: it was not held
UPDATE {head}
SET x_id = '', x_session = '', x_live = '', x_note = '', x_until = 0, x_since = {now}, departed = departed + 1
WHERE name = :name AND x_id = :id AND x_try <= :maxtry AND x_until > {now}
  AND set_config('synchronous_commit', 'off', true) IS NOT NULL
RETURNING waiting
