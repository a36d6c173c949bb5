-- once_lock lets one transaction at a time come to a key's record: those who would
-- wait at the record itself, and then find it undone, would deadlock.
--
-- :name -> a row; none: it was swept just now
SELECT 1 FROM {head} WHERE name = :name FOR UPDATE
