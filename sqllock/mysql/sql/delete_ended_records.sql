-- delete_ended_records deletes records, each if it has ended, unless a transaction has it
-- locked, as that of OnceTx. The rows are locked as in beat_holds.
--
-- :names -> nothing
{delete} r FROM (
  SELECT name FROM {record} WHERE name IN (:names) AND until <> 0 AND until <= {wall}
  LIMIT 1000000 FOR UPDATE SKIP LOCKED
) f STRAIGHT_JOIN {record} r ON r.name = f.name
