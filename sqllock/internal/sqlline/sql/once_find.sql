-- once_find reads a record in the caller's transaction, from its snapshot.
--
-- :name -> value; no row: there is none
SELECT value FROM {record} WHERE name = :name AND (until = 0 OR until > {wall})
