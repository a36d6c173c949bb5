-- haunts tells in which lines a process stands.
--
-- :live -> names
SELECT name FROM {head} WHERE x_live = :live AND x_id <> ''
UNION
SELECT name FROM {claim} WHERE live = :live
