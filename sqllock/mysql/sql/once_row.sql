-- once_row reports whether the row that once_lock locks is there.
--
-- :name -> a row if so
SELECT 1 FROM {head} WHERE name = :name
