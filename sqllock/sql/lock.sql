-- lock holds the name's row until the flight has ended, so that flights on one
-- name follow each other. It fails, on purpose, if there is none: a flight that
-- went on would find itself in the middle of others when the row is made. A
-- dialect whose transactions exclude each other anyway leaves it out.
--
-- :name -> nothing of use
SELECT 1 / count(*) FROM (SELECT 1 FROM {head} WHERE name = :name FOR UPDATE) h
