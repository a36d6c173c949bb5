-- lock_head locks the head row until the batch has ended, so that batches on one name
-- follow each other. It is the weaker lock that does not conflict with guards: only
-- granting does. It fails on purpose if there is no row.
--
-- :name -> no result
SELECT 1 / count(*) FROM (SELECT 1 FROM {head} WHERE name = :name FOR NO KEY UPDATE) h WHERE {durable}
