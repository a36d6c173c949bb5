-- line_blockers reads which other processes block a line: the owners of its holds, and
-- the owner of the first waiting claim.
--
-- :name :owner -> owners
SELECT c.live FROM {claim} c
WHERE c.name = :name AND c.live <> :owner
  AND (c.held = 1 OR c.token = (SELECT min(w.token) FROM {claim} w WHERE w.name = :name AND w.held = 0))
UNION
SELECT h.x_live FROM {head} h WHERE h.name = :name AND h.x_live <> '' AND h.x_live <> :owner
