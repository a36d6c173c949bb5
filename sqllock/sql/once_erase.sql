-- once_erase takes back what once_begin wrote.
--
-- :name -> nothing
DELETE FROM {record} WHERE name = :name
