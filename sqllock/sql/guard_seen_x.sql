-- guard_seen_x tells whether the caller's transaction sees an exclusive hold, and
-- what guard_mark_x has changed: not if its view of the database is older.
--
-- :name :id :token :version, the expiry that guard_mark_x has set, or 0 -> a row if so
SELECT 1 FROM {head} WHERE name = :name AND x_id = :id AND x_token = :token AND x_until >= :version
