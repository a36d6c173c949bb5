-- rests tells of lines for how long nobody ahead of a place in them ends: until then
-- who waits there need not look. It is 0 where somebody has ended, or nobody holds.
--
-- :names :tokens -> name, microseconds, how the id of the exclusive holder begins
SELECT b.name,
  greatest(0, CASE WHEN h.x_id <> '' THEN least(h.x_until, l.until) WHEN h.used > 0 THEN l.until END - {now}),
  left(h.x_id, 8)
FROM unnest(:names, :tokens) AS b (name, token)
JOIN {head} h ON h.name = b.name,
  LATERAL (SELECT min(c.until) AS until FROM {claim} c WHERE c.name = b.name AND c.token < b.token) l
