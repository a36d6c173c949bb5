-- once_erase takes back what once_begin wrote, and nobody else's.
--
-- :name :id, the mark of what once_begin wrote -> nothing
DELETE FROM {record} WHERE name = :name AND position(convert_to(:id, 'UTF8') IN value) > 0
