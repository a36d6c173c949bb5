-- lock_head locks the head row until the batch has ended, so that batches on one name
-- follow each other. It fails on purpose if there is no row: a batch that went on
-- without the lock would interleave with others once the row is made.
--
-- :name -> no result
SELECT 9223372036854775807 + CASE WHEN count(*) = 1 THEN 0 ELSE 1 END
FROM (SELECT 1 FROM {head} WHERE name = :name LIMIT 1 FOR UPDATE) h
