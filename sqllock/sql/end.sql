-- end gives back the exclusive hold of a claim, up to a try, if it is live.
-- x_since then says since when the name is free.
--
-- :name :id :upto -> how many wait; no row: it was not held
UPDATE {head}
SET x_id = '', x_session = '', x_live = '', x_note = '', x_until = 0, x_since = {now}, departed = departed + 1
WHERE name = :name AND x_id = :id AND x_try <= :upto AND x_until > {now}
RETURNING waiting
