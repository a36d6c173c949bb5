-- once_lock lets one transaction at a time access the record of a key. This one is
-- SQLite's: an update that changes nothing takes the write lock of the file before the
-- transaction has read anything, so that its snapshot cannot be old.
--
-- :name -> nothing
UPDATE {record} SET until = until WHERE name = :name AND until < 0
