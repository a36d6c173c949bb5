-- guard_seen tells whether the caller's transaction sees a shared hold: not if
-- its view of the database is older.
--
-- :name :id :token -> a row if so
SELECT 1 FROM {claim} WHERE name = :name AND token = :token AND id = :id AND held = 1
