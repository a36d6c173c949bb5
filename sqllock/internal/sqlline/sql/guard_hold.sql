-- guard_hold locks the row of a live exclusive hold until the caller's transaction
-- ends. It writes, since on this database only writers exclude each other.
--
-- :name :id :token -> a row if so
UPDATE {head} SET x_until = x_until
WHERE name = :name AND x_id = :id AND x_token = :token AND x_until > {now}
RETURNING 1
