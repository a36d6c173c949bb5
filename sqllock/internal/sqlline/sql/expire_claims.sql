-- expire_claims deletes the expired rows of a line.
--
-- :name -> the ids that ended
DELETE FROM {claim} WHERE name = :name AND until <= {now}
RETURNING id
