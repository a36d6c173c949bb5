-- rivals tells which other processes stand in the way in the lines in which this
-- one waits: those who hold, and the first who waits. Whoever is further back
-- is judged when it has come there.
--
-- :live -> live ids
SELECT c.live FROM {claim} c
WHERE c.live <> :live
  AND c.name IN (SELECT m.name FROM {claim} m WHERE m.live = :live AND m.held = 0)
  AND (c.held = 1 OR c.token = (SELECT min(w.token) FROM {claim} w WHERE w.name = c.name AND w.held = 0))
UNION
SELECT h.x_live FROM {head} h
WHERE h.x_live <> '' AND h.x_live <> :live
  AND h.name IN (SELECT m.name FROM {claim} m WHERE m.live = :live AND m.held = 0)
