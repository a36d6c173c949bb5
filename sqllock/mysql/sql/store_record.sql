-- store_record writes a record if its version is the expected one.
--
-- :name :value :version :keep -> the new version; no row: the version is another
UPDATE {record}
SET value = :value, until = IF(:keep = 0, 0, {wall} + :keep), version = LAST_INSERT_ID(GREATEST(version + 1, {mint}) + 1) - 1
WHERE name = :name AND version = :version AND (until = 0 OR until > {wall});
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0
