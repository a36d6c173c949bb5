-- create_record writes a record where there is none.
--
-- :name :value :keep -> the new version; no row: there is one
DELETE FROM {record} WHERE name = :name AND until <> 0 AND until <= {wall};
INSERT IGNORE INTO {record} (name, version, value, until)
VALUES (:name, LAST_INSERT_ID({mint} + 1) - 1, :value, IF(:keep = 0, 0, {wall} + :keep));
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE ROW_COUNT() > 0
