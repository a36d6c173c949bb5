-- evict_hold ends exactly the exclusive hold that an operator saw.
--
-- :name :id :try :token :held -> a row; no row: it was not held
UPDATE {head}
SET x_id = '', x_session = '', x_live = '', x_note = '', x_until = 0, x_since = {now}, departed = departed + 1
WHERE name = :name AND x_id = :id AND x_try = :try AND x_token = :token AND :held = 1
RETURNING 1
