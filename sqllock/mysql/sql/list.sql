-- list reads live claims ordered by name and then by their order in the line, after the
-- last claim seen. A page is a run of at most :count head rows, free or not, with their
-- claims, all found by key: rows beyond it cost nothing. The last head row of the run
-- is shown even if it is free, with an empty id, so that a page without a claim also
-- says where to continue. A page without a row is the end. Servers of this dialect use
-- the key for a range only if each column is compared by itself.
--
-- :name :token :count -> now, name, id, try, token, session, need, limit, queue, note,
--   held, since, until
WITH run AS (
  SELECT name, CASE WHEN x_until > {now} THEN x_id ELSE '' END AS id, x_try, x_token, x_session, x_need, x_limit,
    x_queue, x_note, x_since, x_until
  FROM {head} WHERE name >= :name ORDER BY name LIMIT :count
)
SELECT {now}, name, id, try, token, session, need, lim, queue, note, held, since, until FROM (
  SELECT name, id, x_try AS try, x_token AS token, x_session AS session, x_need AS need, x_limit AS lim,
    x_queue AS queue, x_note AS note, 1 AS held, x_since AS since, x_until AS until
  FROM run WHERE id <> '' OR name = (SELECT max(l.name) FROM run l)
  UNION ALL
  SELECT name, id, try, token, session, need, lim, queue, note, held, since, until FROM (
    SELECT name, id, try, token, session, need, lim, queue, note, held, since, until
    FROM {claim} WHERE (name > :name OR (name = :name AND token > :token)) AND name <= (SELECT max(l.name) FROM run l) AND until > {now}
    ORDER BY name, token LIMIT :count
  ) c
) line
WHERE name > :name OR token > :token
ORDER BY name, token
LIMIT :count
