-- head_state reads what changes in the head row with every grant and every departure,
-- and which claim is the first that waits, for waiters that poll. All tokens ahead of it
-- do not wait any more; :token is that of the caller's first claim that waits, and :count
-- how many of those ahead are counted.
--
-- :name :token :count -> departed, token, used, waiting, 1 if there is an exclusive
--   holder; the token of the first that waits, 0 if none does; how many wait ahead
SELECT h.departed, h.x_token, h.used, h.waiting, CASE WHEN h.x_id = '' THEN 0 ELSE 1 END,
  coalesce((SELECT w.token FROM {claim} w WHERE w.name = :name AND w.held = 0 ORDER BY w.token LIMIT 1), 0),
  (SELECT count(*) FROM (
    SELECT 1 FROM {claim} a WHERE a.name = :name AND a.held = 0 AND a.token < :token ORDER BY a.token LIMIT :count
  ) f)
FROM {head} h WHERE h.name = :name
