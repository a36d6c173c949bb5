-- once_current reads the current record, whatever the transaction's snapshot shows,
-- also one that has ended since.
--
-- :name -> value; no row: there is none
SELECT value FROM {record} WHERE name = :name LOCK IN SHARE MODE
