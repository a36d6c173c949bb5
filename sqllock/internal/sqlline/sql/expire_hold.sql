-- expire_hold ends an exclusive hold that has expired.
--
-- :name -> nothing
UPDATE {head}
SET x_id = '', x_session = '', x_live = '', x_note = '', x_until = 0, x_since = {now}, departed = departed + 1
WHERE name = :name AND x_id <> '' AND x_until <= {now}
