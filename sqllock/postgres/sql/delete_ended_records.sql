-- delete_ended_records deletes records, each if it has ended. A locked one stays, such as
-- that of an open transaction of OnceTx.
--
-- :names -> nothing
DELETE FROM {record} r
USING (SELECT name FROM {record} WHERE name = ANY (:names) AND until <> 0 AND until <= {wall} FOR UPDATE SKIP LOCKED) f
WHERE r.name = f.name
