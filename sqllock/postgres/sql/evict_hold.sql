-- evict_hold ends exactly the exclusive hold that an operator saw. It fails if a guard
-- is open.
--
-- :name :id :try :token :held -> the id that ended
UPDATE {head} h
SET x_id = '', x_session = '', x_live = '', x_note = '', x_until = 0, x_since = {now}, departed = departed + 1
FROM (SELECT name, x_id FROM {head} WHERE name = :name AND x_id = :id AND x_try = :try AND x_token = :token
  AND :held = 1 FOR UPDATE NOWAIT) f
WHERE h.name = f.name
RETURNING f.x_id
