-- line reads the live claims of one name in their order. The limit is above the length
-- of any line: a session may have set a lower one for statements without LIMIT.
--
-- :name -> now, name, id, try, token, session, need, limit, queue, note, held, since,
--   until
SELECT {now}, name, x_id AS id, x_try AS try, x_token AS token, x_session AS session, x_need AS need, x_limit AS lim,
  x_queue AS queue, x_note AS note, 1 AS held, x_since AS since, x_until AS until
FROM {head} WHERE name = :name AND x_id <> '' AND x_until > {now}
UNION ALL
SELECT {now}, name, id, try, token, session, need, lim, queue, note, held, since, until
FROM {claim} WHERE name = :name AND until > {now}
ORDER BY token
LIMIT 100000000
