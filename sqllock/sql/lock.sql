-- lock holds the name's row until the flight has ended, so that flights on one
-- name follow each other. A dialect whose transactions exclude each other
-- anyway leaves it out.
--
-- :name -> nothing of use
SELECT fence FROM {head} WHERE name = :name FOR UPDATE
