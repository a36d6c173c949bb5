-- take_free takes a free name exclusively in one statement, as the shared one does. The
-- token plus one is the statement's LAST_INSERT_ID, which the server sends with its OK;
-- 0 says that the name was not taken. Columns that the conditions read are assigned
-- last, so that the result is the same whether a session evaluates assignments one
-- after the other or all at once. All conditions are compared with one reading of the
-- clock, x_since of the new row. The tokens of a new row start above those of deleted
-- rows, which save_fence recorded; that row is locked, so that the statement waits for
-- a concurrent sweep before it reads the row, and not after.
--
-- :name :id :try :session :owner :note :need :limit :queue :ttl -> token; no row: not
--   taken
INSERT INTO {head} (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
  x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
SELECT :name, GREATEST({now}, m.swept + 1), :id, :try, LAST_INSERT_ID(GREATEST({now}, m.swept + 1) + 1) - 1, :session, :owner, :note,
  :need, :limit, :queue, {now}, {now} + :ttl + {primary}, 0, 0, 0
FROM (SELECT COALESCE(MAX(fence), 0) AS swept FROM {head} WHERE name = '' LOCK IN SHARE MODE) m
ON DUPLICATE KEY UPDATE
  x_token   = CASE
    WHEN x_until <= VALUES(x_since) AND used = 0 AND waiting = 0 THEN LAST_INSERT_ID(GREATEST(fence + 1, VALUES(x_since)) + 1) - 1
    WHEN x_until > VALUES(x_since) AND x_id = :id AND x_try = :try THEN LAST_INSERT_ID(x_token + 1) - 1
    ELSE x_token + LAST_INSERT_ID(0) END,
  fence     = IF(x_until <= VALUES(x_since) AND used = 0 AND waiting = 0, GREATEST(fence + 1, VALUES(x_since)), fence),
  x_since   = IF(x_until <= VALUES(x_since) AND used = 0 AND waiting = 0, VALUES(x_since), x_since),
  x_session = IF(x_until <= VALUES(x_since) AND used = 0 AND waiting = 0, :session, x_session),
  x_live    = IF(x_until <= VALUES(x_since) AND used = 0 AND waiting = 0, :owner, x_live),
  x_note    = IF(x_until <= VALUES(x_since) AND used = 0 AND waiting = 0, :note, x_note),
  x_need    = IF(x_until <= VALUES(x_since) AND used = 0 AND waiting = 0, :need, x_need),
  x_limit   = IF(x_until <= VALUES(x_since) AND used = 0 AND waiting = 0, :limit, x_limit),
  x_queue   = IF(x_until <= VALUES(x_since) AND used = 0 AND waiting = 0, :queue, x_queue),
  departed  = departed + IF(x_until <= VALUES(x_since) AND used = 0 AND waiting = 0 AND x_id <> '', 1, 0),
  x_try     = IF(x_until <= VALUES(x_since) AND used = 0 AND waiting = 0, :try, x_try),
  x_id      = IF(x_until <= VALUES(x_since) AND used = 0 AND waiting = 0, :id, x_id),
  x_until   = CASE
    WHEN x_until <= VALUES(x_since) AND used = 0 AND waiting = 0 THEN VALUES(x_since) + :ttl
    WHEN x_until > VALUES(x_since) AND x_id = :id AND x_try = :try THEN GREATEST(x_until, VALUES(x_since) + :ttl)
    ELSE x_until END;
SELECT LAST_INSERT_ID() - 1 FROM dual WHERE LAST_INSERT_ID() > 0
