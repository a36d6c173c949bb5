-- once_erase deletes what once_begin wrote, recognised by its mark, and no other
-- record.
--
-- :name :id, the mark of what once_begin wrote -> nothing
DELETE FROM {record} WHERE name = :name AND instr(value, CAST(:id AS BLOB)) > 0
