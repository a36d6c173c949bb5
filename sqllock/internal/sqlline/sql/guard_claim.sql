-- guard_claim locks the row of a live shared hold until the caller's transaction ends.
-- It writes, since on this database only writers exclude each other.
--
-- :name :id :token -> a row if so
UPDATE {claim} SET until = until
WHERE name = :name AND token = :token AND id = :id AND held = 1 AND until > {now}
RETURNING 1
