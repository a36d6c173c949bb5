-- prune ends the places in line whose time is over.
--
-- :name -> the ids that ended
DELETE FROM {claim} WHERE name = :name AND until <= {now}
RETURNING id
