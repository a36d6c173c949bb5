-- expire_claims deletes the expired rows of a line. Their waiters poll, so they need no
-- notice.
--
-- :name -> nothing
DELETE FROM {claim} WHERE name = :name AND until <= {now}
