-- list shows live claims in the order of names, then of the line, from behind a
-- place that was seen last.
--
-- :name :token :count -> now, name, id, try, token, session, need, limit, queue, note, held, since, until
SELECT {now}, name, id, try, token, session, need, lim, queue, note, held, since, until FROM (
  SELECT name, x_id AS id, x_try AS try, x_token AS token, x_session AS session, x_need AS need, x_limit AS lim,
    x_queue AS queue, x_note AS note, 1 AS held, x_since AS since, x_until AS until
  FROM {head} WHERE name >= :name AND x_id <> ''
  UNION ALL
  SELECT name, id, try, token, session, need, lim, queue, note, held, since, until
  FROM {claim} WHERE name >= :name
) line
WHERE until > {now} AND (name > :name OR token > :token)
ORDER BY name, token
LIMIT :count
