-- departures reads how many departures from a line were counted. The count restarts
-- when an idle head row is deleted, so only a difference has a meaning.
--
-- :name -> count
SELECT departed FROM {head} WHERE name = :name
