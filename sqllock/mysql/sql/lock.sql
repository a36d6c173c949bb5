-- lock holds the name's row until the flight has ended, so that flights on one
-- name follow each other. It fails, on purpose, if there is none: a flight that
-- went on would find itself in the middle of others when the row is made.
--
-- :name -> nothing of use
SELECT 9223372036854775807 + CASE WHEN count(*) = 1 THEN 0 ELSE 1 END
FROM (SELECT 1 FROM {head} WHERE name = :name LIMIT 1 FOR UPDATE) h
