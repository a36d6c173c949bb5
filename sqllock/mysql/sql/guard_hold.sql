-- guard_hold locks the row of a live exclusive hold until the caller's transaction
-- ends.
--
-- :name :id :token -> a row if so
SELECT 1 FROM {head}
WHERE name = :name AND x_id = :id AND x_token = :token AND x_until > {now}
LOCK IN SHARE MODE
