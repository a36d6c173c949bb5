-- end_free gives back the exclusive hold of a claim, up to a try, if it is live
-- and nobody waits for it.
--
-- :name :id :upto -> the name; no row: it was not held, or somebody waits
UPDATE {head}
SET x_id = '', x_session = '', x_live = '', x_note = '', x_until = 0, x_since = {now}, departed = departed + 1
WHERE name = :name AND x_id = :id AND x_try <= :upto AND x_until > {now} AND waiting = 0
RETURNING name
