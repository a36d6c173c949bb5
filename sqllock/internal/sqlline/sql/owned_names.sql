-- owned_names reads in which lines a process has claims.
--
-- :owner -> names
SELECT name FROM {head} WHERE x_live = :owner AND x_id <> ''
UNION
SELECT name FROM {claim} WHERE live = :owner
