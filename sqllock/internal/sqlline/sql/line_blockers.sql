-- line_blockers reads which other processes block a line: the owners of its holds, and
-- the owner of the first waiting claim, behind which there are none.
--
-- :name :owner -> owners
SELECT c.live FROM {claim} c
WHERE c.name = :name AND c.live <> :owner
  AND c.token <= coalesce((SELECT w.token FROM {claim} w WHERE w.name = :name AND w.held = 0 ORDER BY w.token LIMIT 1), 36028797018963968)
UNION
SELECT h.x_live FROM {head} h WHERE h.name = :name AND h.x_live <> '' AND h.x_live <> :owner
