-- once_stands reads the record as it stands now, whatever the transaction has seen
-- before, and also one that has ended since.
--
-- :name -> value; no row: there is none
SELECT value FROM {record} WHERE name = :name LOCK IN SHARE MODE
