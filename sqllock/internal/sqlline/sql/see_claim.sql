-- see_claim reports whether the caller's transaction sees a shared hold. It does not if
-- its snapshot is older.
--
-- :name :id :token -> a row if so
SELECT 1 FROM {claim} WHERE name = :name AND token = :token AND id = :id AND held = 1
