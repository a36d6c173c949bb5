-- guard_claim locks the row of a live shared hold until the caller's transaction ends.
--
-- :name :id :token -> a row if so
SELECT 1 FROM {claim}
WHERE name = :name AND token = :token AND id = :id AND held = 1 AND until > {now}
LOCK IN SHARE MODE
