-- prune takes the claims that have ended out of the line, but for those that are
-- guarded: they stand in the way until the guard's transaction ends.
--
-- :name -> the ids that ended
DELETE FROM {claim} c
USING (SELECT token FROM {claim} WHERE name = :name AND until <= {now} ORDER BY token FOR UPDATE SKIP LOCKED) f
WHERE c.name = :name AND c.token = f.token
RETURNING c.id
