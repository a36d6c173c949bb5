-- once_lock lets one transaction at a time access the record of a key. Transactions
-- that waited at the record itself would deadlock if the first one were rolled back.
--
-- :name -> a row; none: it was swept just now
SELECT 1 FROM {head} WHERE name = :name FOR UPDATE
