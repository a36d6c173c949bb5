-- expire_claims deletes the expired rows of a line, except guarded ones: they stay
-- until the guarded transaction ends.
--
-- :name -> the ids that ended, and their owners
DELETE FROM {claim} c
USING (SELECT token FROM {claim} WHERE name = :name AND until <= {now} ORDER BY token FOR UPDATE SKIP LOCKED) f
WHERE c.name = :name AND c.token = f.token
RETURNING c.id, c.live
