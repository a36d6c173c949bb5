-- once_end writes what came of a key's work over what once_begin wrote.
--
-- :name :value :keep -> nothing: what stands is read
UPDATE {record} SET value = :value, until = {wall} + :keep, version = GREATEST(version + 1, {mint})
WHERE name = :name
