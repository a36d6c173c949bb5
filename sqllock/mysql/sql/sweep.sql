-- sweep forgets one idle head row, if it is still idle and its tokens are noted: the
-- row may have been used since mark has looked. A row that somebody has stays, as one
-- that once.Tx locks: the row that notes tokens is held meanwhile, so nothing may be
-- waited for. The row is had as in beat_x.
--
-- :name :ttl -> nothing
{delete} h FROM (
  SELECT name, fence FROM {head}
  WHERE name = :name AND used = 0 AND waiting = 0
    AND x_until < {now} - :ttl AND x_since < {now} - :ttl
  LIMIT 1 FOR UPDATE SKIP LOCKED
) f STRAIGHT_JOIN {head} m ON m.name = '' AND m.fence >= f.fence
STRAIGHT_JOIN {head} h ON h.name = f.name
