-- owner_blockers reads which other processes block the lines in which this process
-- waits: the owners of their holds, and the owner of the first waiting claim. Claims
-- further back are checked when they have become the first.
--
-- :owner -> owners
SELECT c.live FROM {claim} c
WHERE c.live <> :owner
  AND c.name IN (SELECT m.name FROM {claim} m WHERE m.live = :owner AND m.held = 0)
  AND (c.held = 1 OR c.token = (SELECT min(w.token) FROM {claim} w WHERE w.name = c.name AND w.held = 0))
UNION
SELECT h.x_live FROM {head} h
WHERE h.x_live <> '' AND h.x_live <> :owner
  AND h.name IN (SELECT m.name FROM {claim} m WHERE m.live = :owner AND m.held = 0)
