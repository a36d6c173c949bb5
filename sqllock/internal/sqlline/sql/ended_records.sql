-- ended_records reads a page of records after a name and reports which have ended.
--
-- :name :count -> name, 0 or 1
SELECT name, CASE WHEN until <> 0 AND until <= {wall} THEN 1 ELSE 0 END
FROM {record} WHERE name > :name ORDER BY name LIMIT :count
