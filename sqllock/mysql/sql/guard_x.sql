-- guard_x holds an exclusive hold's row until the caller's transaction ends, if
-- the hold is live.
--
-- :name :id :token -> a row if so
SELECT 1 FROM {head}
WHERE name = :name AND x_id = :id AND x_token = :token AND x_until > {now}
LOCK IN SHARE MODE
