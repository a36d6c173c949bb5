-- line_expiry reads for how long no claim ahead of a given one expires: until then its
-- waiter need not look. It is 0 if a claim has expired, or if nothing is held. Of a long
-- line it reads the front: those there advance it, and see to what expires behind them
-- when they are gone.
--
-- :names :tokens -> name, microseconds, the first characters of the exclusive holder's
--   id
SELECT b.name,
  greatest(0, CASE WHEN h.x_id <> '' THEN least(h.x_until, l.until) WHEN h.used > 0 THEN l.until END - {now}),
  left(h.x_id, 8)
FROM unnest(:names, :tokens) AS b (name, token)
JOIN {head} h ON h.name = b.name,
  LATERAL (SELECT min(f.until) AS until FROM (
    SELECT c.until FROM {claim} c WHERE c.name = b.name AND c.token < b.token ORDER BY c.token LIMIT 64
  ) f) l
