-- once_end writes what came of a key's work over what once_begin wrote.
--
-- :name :value :keep -> a row if it was there; where the dialect cannot tell, none
UPDATE {record} SET value = :value, until = {wall} + :keep, version = {max}(version + 1, {mint})
WHERE name = :name
RETURNING 1
