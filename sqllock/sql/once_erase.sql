-- once_erase takes back what once_begin wrote, and nobody else's.
--
-- :name :id, the mark of what once_begin wrote -> nothing
DELETE FROM {record} WHERE name = :name AND instr(value, CAST(:id AS BLOB)) > 0
