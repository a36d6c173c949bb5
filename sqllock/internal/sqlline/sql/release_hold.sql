-- release_hold releases the live exclusive hold of a claim, for tries up to a given
-- one. From then on x_since is the time since which the name is free.
--
-- :name :id :maxtry -> the number of waiting claims; no row: it was not held
UPDATE {head}
SET x_id = '', x_session = '', x_live = '', x_note = '', x_until = 0, x_since = {now}, departed = departed + 1
WHERE name = :name AND x_id = :id AND x_try <= :maxtry AND x_until > {now}
RETURNING waiting
