-- lock holds the name's row until the flight has ended, so that flights on one
-- name follow each other. It is the weaker lock that passes guards: they hold
-- back only those who let somebody in. It fails, on purpose, if there is no row.
--
-- :name -> nothing of use
SELECT 1 / count(*) FROM (SELECT 1 FROM {head} WHERE name = :name FOR NO KEY UPDATE) h
