-- lock_head locks the head row until the batch has ended, so that batches on one name
-- follow each other. It fails on purpose if there is no row: a batch that went on
-- without the lock would interleave with others once the row is made. A dialect whose
-- transactions exclude each other anyway leaves this out.
--
-- :name -> no result
SELECT 1 / count(*) FROM (SELECT 1 FROM {head} WHERE name = :name FOR UPDATE) h
