-- guard_hold locks the row of a live exclusive hold until the caller's transaction
-- ends. The lock conflicts with granting the name to another claim, and not with beats.
--
-- :name :id :token -> a row if so
SELECT 1 FROM {head}
WHERE name = :name AND x_id = :id AND x_token = :token AND x_until > {now}
FOR KEY SHARE
