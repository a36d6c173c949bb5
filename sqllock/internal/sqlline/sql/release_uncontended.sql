-- release_uncontended releases the live exclusive hold of a claim, for tries up to a
-- given one, if no claim waits for the name.
--
-- :name :id :maxtry -> the name; no row: it was not held, or a claim waits
UPDATE {head}
SET x_id = '', x_session = '', x_live = '', x_note = '', x_until = 0, x_since = {now}, departed = departed + 1
WHERE name = :name AND x_id = :id AND x_try <= :maxtry AND x_until > {now} AND waiting = 0
RETURNING name
