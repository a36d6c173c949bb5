-- standing reads the standing of a claim. It reads only, and takes the line as it is:
-- expired rows that were not deleted yet still count. It is read while the file is locked
-- for writing, so it makes no copy of the line as the shared statement does, which cost
-- the others a millisecond for each hundred claims.
--
-- :name :id :need :limit -> known, now, try, held, token, until of the claim; the
--   number of claims ahead of it (all, if it is not in the line) and their first
--   expiry; whether shared claims of another limit are in the line; then the first in
--   line: id, try, token, session, need, limit, queue, note, held, since, until
WITH me AS MATERIALIZED (
  SELECT x_try AS try, 1 AS held, x_token AS token, x_until AS until FROM {head} WHERE name = :name AND x_id = :id
  UNION ALL
  SELECT try, held, token, until FROM {claim} WHERE name = :name AND id = :id
),
ahead AS (
  SELECT count(*) AS n, coalesce(min(until), 0) AS expiry FROM (
    SELECT x_until AS until FROM {head}
    WHERE name = :name AND x_id <> '' AND x_token < coalesce((SELECT token FROM me), 36028797018963968)
    UNION ALL
    SELECT until FROM {claim}
    WHERE name = :name AND token < coalesce((SELECT token FROM me), 36028797018963968))
),
front AS (
  SELECT x_id AS id, x_try AS try, x_token AS token, x_session AS session, x_need AS need, x_limit AS lim,
    x_queue AS queue, x_note AS note, 1 AS held, x_since AS since, x_until AS until
  FROM {head} WHERE name = :name AND x_id <> ''
  UNION ALL
  SELECT * FROM (SELECT id, try, token, session, need, lim, queue, note, held, since, until
    FROM {claim} WHERE name = :name ORDER BY token LIMIT 1)
)
SELECT CASE WHEN me.try IS NULL THEN 0 ELSE 1 END, {now},
  coalesce(me.try, 0), coalesce(me.held, 0), coalesce(me.token, 0), coalesce(me.until, 0),
  ahead.n, ahead.expiry,
  CASE WHEN :need < :limit AND EXISTS (SELECT 1 FROM {claim} c
    WHERE c.name = :name AND c.id <> :id AND c.need < c.lim AND c.lim <> :limit) THEN 1 ELSE 0 END,
  coalesce(f.id, ''), coalesce(f.try, 0), coalesce(f.token, 0), coalesce(f.session, ''), coalesce(f.need, 0), coalesce(f.lim, 0),
  coalesce(f.queue, 0), coalesce(f.note, ''), coalesce(f.held, 0), coalesce(f.since, 0), coalesce(f.until, 0)
FROM ahead
LEFT JOIN me ON 1 = 1
LEFT JOIN (SELECT * FROM front ORDER BY token LIMIT 1) f ON 1 = 1
