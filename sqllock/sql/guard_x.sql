-- guard_x holds an exclusive hold's row until the caller's transaction ends, if
-- the hold is live. It writes, so that nobody else can until then.
--
-- :name :id :token -> a row if so
UPDATE {head} SET x_until = x_until
WHERE name = :name AND x_id = :id AND x_token = :token AND x_until > {now}
RETURNING 1
