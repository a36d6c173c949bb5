-- append_claim puts an exclusive claim at the end of the line behind a live holder: the
-- common outcome of an Enter on a busy name, after lock_head. Any other case, such as a
-- claim that is in the line already, or one that has expired, is left to join_line,
-- which reads the line many times: the longer it is, the longer the row of the name is
-- locked, which the holder's beat waits for. The token is the INSERT's LAST_INSERT_ID.
--
-- :name :id :try :session :owner :note :need :limit :queue :ttl -> as standing, where
--   what expires first is searched for among the first 64, itself included; no row: use
--   join_line
INSERT INTO {claim} (name, token, id, try, session, live, note, need, lim, queue, held, since, until)
SELECT h.name, LAST_INSERT_ID(GREATEST(h.fence + 1, {mint})), :id, :try, :session, :owner, :note, :need, :limit, :queue, 0, {now}, {now} + :ttl
FROM {head} h
WHERE h.name = :name AND h.x_id <> '' AND h.x_id <> :id AND h.x_until > {now}
  AND NOT EXISTS (SELECT 1 FROM {claim} c WHERE c.name = :name AND (c.id = :id OR c.until <= {now}));
UPDATE {head} SET fence = LAST_INSERT_ID(), waiting = waiting + 1 WHERE name = :name AND ROW_COUNT() > 0;
SELECT 1, {now}, :try, 0, h.fence, {now} + :ttl, h.used + h.waiting, LEAST(h.x_until, a.until), 0,
  h.x_id, h.x_try, h.x_token, h.x_session, h.x_need, h.x_limit, h.x_queue, h.x_note, 1, h.x_since, h.x_until
FROM {head} h CROSS JOIN (
  SELECT min(f.until) AS until FROM (SELECT until FROM {claim} WHERE name = :name ORDER BY token LIMIT 64) f
) a
WHERE h.name = :name AND ROW_COUNT() > 0
