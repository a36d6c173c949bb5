-- owner_blockers reads which other processes block the lines in which this process
-- waits: the owners of their holds, and the owner of the first waiting claim, behind
-- which there are none. Claims further back are checked when they have become the first.
--
-- :owner -> owners
WITH mine AS MATERIALIZED (SELECT DISTINCT m.name FROM {claim} m WHERE m.live = :owner AND m.held = 0)
SELECT c.live FROM mine CROSS JOIN {claim} c
WHERE c.name = mine.name AND c.live <> :owner
  AND c.token <= (SELECT w.token FROM {claim} w WHERE w.name = mine.name AND w.held = 0 ORDER BY w.token LIMIT 1)
UNION
SELECT h.x_live FROM mine CROSS JOIN {head} h
WHERE h.name = mine.name AND h.x_live <> '' AND h.x_live <> :owner
