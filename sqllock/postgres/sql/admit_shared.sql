-- admit_shared grants shared claims from the front of the line, as many as fit: each
-- together with all claims ahead of it within the limit, and none behind an exclusive
-- claim. An open guard of the last exclusive hold prevents it.
--
-- :name -> the ids that were granted, and their owners
UPDATE {claim} SET held = 1, since = {now}
WHERE name = :name AND held = 0
  AND token IN (
    SELECT f.token FROM (
      SELECT c.token, c.lim,
        sum(c.need) OVER w AS total,
        sum(CASE WHEN c.need >= c.lim THEN 1 ELSE 0 END) OVER w AS writers
      FROM {claim} c WHERE c.name = :name
      WINDOW w AS (ORDER BY c.token ROWS UNBOUNDED PRECEDING)
    ) f WHERE f.writers = 0 AND f.total <= f.lim)
  AND EXISTS (SELECT 1 FROM {head} h WHERE h.name = :name AND h.x_id = '' FOR UPDATE SKIP LOCKED)
RETURNING id, live
