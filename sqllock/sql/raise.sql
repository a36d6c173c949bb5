-- raise lifts the name's fence to the highest token given out on it.
--
-- :name -> nothing
UPDATE {head} SET fence = (SELECT max(c.token) FROM {claim} c WHERE c.name = :name)
WHERE name = :name AND fence < (SELECT max(c.token) FROM {claim} c WHERE c.name = :name)
