-- see_hold reports whether the caller's transaction sees an exclusive hold, and the
-- change that touch_hold made. It does not if its snapshot is older.
--
-- :name :id :token :version, the expiry that touch_hold has set, or 0 -> a row if so
SELECT 1 FROM {head} WHERE name = :name AND x_id = :id AND x_token = :token AND x_until >= :version
