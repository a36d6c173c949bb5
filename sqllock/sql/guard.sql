-- guard holds a shared hold's row until the caller's transaction ends, if the
-- hold is live. It writes, so that nobody else can until then.
--
-- :name :id :token -> a row if so
UPDATE {claim} SET until = until
WHERE name = :name AND token = :token AND id = :id AND held = 1 AND until > {now}
RETURNING 1
