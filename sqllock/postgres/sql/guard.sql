-- guard holds a shared hold's row until the caller's transaction ends, if the
-- hold is live: beats pass it, whoever would end it does not.
--
-- :name :id :token -> a row if so
SELECT 1 FROM {claim}
WHERE name = :name AND token = :token AND id = :id AND held = 1 AND until > {now}
FOR KEY SHARE
