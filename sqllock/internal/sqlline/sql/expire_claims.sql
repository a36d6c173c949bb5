-- expire_claims deletes the expired rows of a line.
--
-- :name -> the ids that ended, and their processes
DELETE FROM {claim} WHERE name = :name AND until <= {now}
RETURNING id, live
