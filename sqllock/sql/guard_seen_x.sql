-- guard_seen_x tells whether the caller's transaction sees an exclusive hold:
-- not if its view of the database is older.
--
-- :name :id :token -> a row if so
SELECT 1 FROM {head} WHERE name = :name AND x_id = :id AND x_token = :token
