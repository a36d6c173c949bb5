-- delete_ended_record deletes one record that has ended, unless a transaction has it
-- locked, as that of OnceTx: waiting would keep others from the rows that the batch
-- deleted before. The row is locked as in beat_hold.
--
-- :name -> nothing
{delete} r FROM (
  SELECT name FROM {record} WHERE name = :name AND until <> 0 AND until <= {wall}
  LIMIT 1 FOR UPDATE SKIP LOCKED
) f STRAIGHT_JOIN {record} r ON r.name = f.name
