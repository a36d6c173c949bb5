-- once_seat tells whether the row is there that once_lock locks.
--
-- :name -> a row if so
SELECT 1 FROM {head} WHERE name = :name
