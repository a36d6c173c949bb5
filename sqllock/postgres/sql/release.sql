-- release is the shared end as a flight of its own. Its commit does not wait for
-- the disk: should the server forget it in a crash, the name is free at its
-- expiry, and whoever takes it before has the release written down with his own.
--
-- :name :id :upto -> how many wait; no row: it was not held
UPDATE {head}
SET x_id = '', x_session = '', x_live = '', x_note = '', x_until = 0, x_since = {now}, departed = departed + 1
WHERE name = :name AND x_id = :id AND x_try <= :upto AND x_until > {now}
  AND set_config('synchronous_commit', 'off', true) IS NOT NULL
RETURNING waiting
