-- admit_shared grants shared claims from the front of the line, as many as fit: each
-- together with all claims ahead of it within the limit, and none behind an exclusive
-- claim.
--
-- :name -> nothing
{update} (
  SELECT f.token FROM (
    SELECT c.token, c.lim,
      sum(c.need) OVER w AS total,
      sum(CASE WHEN c.need >= c.lim THEN 1 ELSE 0 END) OVER w AS writers
    FROM {claim} c WHERE c.name = :name
      AND EXISTS (SELECT 1 FROM {head} h WHERE h.name = :name AND h.x_id = '')
    WINDOW w AS (ORDER BY c.token ROWS UNBOUNDED PRECEDING)
  ) f WHERE f.writers = 0 AND f.total <= f.lim
) g STRAIGHT_JOIN {claim} m ON m.name = :name AND m.token = g.token
SET m.held = 1, m.since = {now} + {primary}
WHERE m.held = 0
