-- once_lock lets one transaction at a time come to a key's record. The shared one
-- is SQLite's: a write that changes nothing has the file for this transaction
-- before it has read anything, so that it cannot have read what is old.
--
-- :name -> nothing
UPDATE {record} SET until = until WHERE name = :name AND until < 0
