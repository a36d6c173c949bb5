-- evict_hold ends exactly the exclusive hold that an operator saw.
--
-- :name :id :try :token :held -> the id that ended
UPDATE {head}
SET x_session = '', x_live = '', x_note = '', x_since = {now}, departed = departed + 1, x_id = '', x_until = 0
WHERE name = :name AND x_id = :id AND x_try = :try AND x_token = :token AND :held = 1;
SELECT :id FROM dual WHERE ROW_COUNT() > 0
