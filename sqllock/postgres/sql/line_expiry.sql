-- line_expiry reads for how long no claim ahead of a given one expires: until then its
-- waiter need not look. It is 0 if a claim has expired, or if nothing is held. Of those that
-- wait in a long line it reads the first: they advance it, and see to what expires behind
-- them when they are gone.
--
-- :names :tokens -> name, microseconds, the first characters of the exclusive holder's
--   id, how many wait ahead, at most 64
SELECT b.name,
  greatest(0, CASE WHEN h.x_id <> '' OR h.used > 0
    THEN least(CASE WHEN h.x_id <> '' THEN h.x_until END, s.until, l.until) END - {now}),
  left(h.x_id, 8), l.waiting
FROM unnest(:names, :tokens) AS b (name, token)
JOIN {head} h ON h.name = b.name,
  LATERAL (SELECT min(c.until) AS until FROM {claim} c
    WHERE h.used > 0 AND c.name = b.name AND c.token < b.token AND c.held = 1) s,
  LATERAL (SELECT min(f.until) AS until, count(*) AS waiting FROM (
    SELECT c.until FROM {claim} c WHERE c.name = b.name AND c.token < b.token AND c.held = 0 ORDER BY c.token LIMIT 64
  ) f) l
