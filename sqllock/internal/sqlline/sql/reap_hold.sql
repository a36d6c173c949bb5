-- reap_hold ends the exclusive hold of a process that is known to be dead.
--
-- :name :owner -> nothing
UPDATE {head}
SET x_id = '', x_session = '', x_live = '', x_note = '', x_until = 0, x_since = {now}, departed = departed + 1
WHERE name = :name AND x_live = :owner AND x_id <> ''
