-- raise_fence raises the fence of the name to the highest token in its line.
--
-- :name -> nothing
UPDATE {head} SET fence = (SELECT max(c.token) FROM {claim} c WHERE c.name = :name)
WHERE name = :name AND fence < (SELECT max(c.token) FROM {claim} c WHERE c.name = :name)
