-- occupants tells which other processes stand in the way in one line: those who
-- hold, and the first who waits.
--
-- :name :live -> live ids
SELECT c.live FROM {claim} c
WHERE c.name = :name AND c.live <> :live
  AND (c.held = 1 OR c.token = (SELECT min(w.token) FROM {claim} w WHERE w.name = :name AND w.held = 0))
UNION
SELECT h.x_live FROM {head} h WHERE h.name = :name AND h.x_live <> '' AND h.x_live <> :live
