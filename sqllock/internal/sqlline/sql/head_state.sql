-- head_state reads what changes in the head row with every grant and every departure,
-- how far the turn of the caller's first waiting claim is, and until when it need not look,
-- for waiters that poll. Claims with a token ahead of the first that waits do not wait any
-- more. Of those that wait in a long line it reads the first: they advance it.
--
-- :name, :token of that claim, 0 if there is none, and :count, how many are read ->
--   departed, token, used, waiting; the token of the first that waits, 0 if none does; of
--   those ahead that wait how many are exclusive, and what the others need and their limit
--   is; now; when the exclusive holder expires, the first of the other holders, the first
--   of those ahead that wait, and the claim itself, each 0 if there is none; the first
--   characters of the holder's id
SELECT h.departed, h.x_token, h.used, h.waiting,
  coalesce((SELECT w.token FROM {claim} w WHERE w.name = :name AND w.held = 0 ORDER BY w.token LIMIT 1), 0),
  coalesce(a.exclusive, 0), coalesce(a.need, 0), coalesce(a.lim, 1),
  {now}, CASE WHEN h.x_id = '' THEN 0 ELSE h.x_until END,
  CASE WHEN h.used = 0 THEN 0 ELSE coalesce((SELECT min(s.until) FROM {claim} s WHERE s.name = :name AND s.held = 1), 0) END,
  coalesce(a.until, 0),
  coalesce((SELECT m.until FROM {claim} m WHERE m.name = :name AND m.token = :token AND m.held = 0), 0),
  substr(h.x_id, 1, 8)
FROM {head} h CROSS JOIN (
  SELECT sum(CASE WHEN f.need >= f.lim THEN 1 ELSE 0 END) AS exclusive,
    sum(CASE WHEN f.need < f.lim THEN f.need ELSE 0 END) AS need,
    max(CASE WHEN f.need < f.lim THEN f.lim ELSE 1 END) AS lim,
    min(f.until) AS until
  FROM (SELECT need, lim, until FROM {claim} WHERE name = :name AND held = 0 AND token < :token ORDER BY token LIMIT :count) f
) a
WHERE h.name = :name
