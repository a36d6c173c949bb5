-- delete_heads deletes head rows, each if it is still idle and its tokens are recorded:
-- the row may have been used after save_fence read it. A locked row stays, such as one
-- that OnceTx has locked: the row that records tokens is locked meanwhile, so this must
-- not wait. The rows are locked as in beat_holds.
--
-- :names :ttl -> nothing
{delete} h FROM (
  SELECT name, fence FROM {head}
  WHERE name IN (:names) AND used = 0 AND waiting = 0
    AND x_until < {now} - :ttl AND x_since < {now} - :ttl
  LIMIT 1000000 FOR UPDATE SKIP LOCKED
) f STRAIGHT_JOIN {head} m ON m.name = '' AND m.fence >= f.fence
STRAIGHT_JOIN {head} h ON h.name = f.name
