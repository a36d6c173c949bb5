-- take_free takes a free name exclusively in one statement, as the shared one does, and
-- never waits: if the row is not visibly free it is not touched, so that a failed try
-- writes nothing; if the row is locked, for a moment or by a guard of the last hold,
-- the batch that joins the line decides. The row is locked for update before it
-- changes, so that a guard that comes then waits and sees the result. A row that the
-- statement did not see when it began cannot be locked so, and may be guarded by now:
-- used of the proposed row is 0 then, and the row that came meanwhile is left alone. All
-- conditions are compared with one reading of the clock, x_since of the new row. The
-- tokens of a new row start above those of deleted rows, which save_fence recorded: a
-- row that the statement does not see was deleted, and recorded, before it began.
--
-- :name :id :try :session :owner :note :need :limit :queue :ttl -> token; no row: not
--   taken
INSERT INTO {head} AS h (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
  x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
SELECT :name, n.fence, :id, :try, n.fence, :session, :owner, :note, :need, :limit, :queue, n.t, n.t + :ttl, n.seen, 0, 0
FROM (
  SELECT c.t, c.seen, CASE c.seen WHEN 1 THEN c.t
    ELSE greatest(c.t, (SELECT m.fence + 1 FROM {head} m WHERE m.name = '')) END AS fence
  FROM (SELECT {now} AS t, (SELECT count(*) FROM {head} b WHERE b.name = :name) AS seen) c
) n
WHERE {durable} AND (n.seen = 0
  OR EXISTS (SELECT 1 FROM {head} b WHERE b.name = :name
    AND ((b.x_until <= n.t AND b.used = 0 AND b.waiting = 0)
      OR (b.x_until > n.t AND b.x_id = :id AND b.x_try = :try))
    FOR UPDATE SKIP LOCKED))
ON CONFLICT (name) DO UPDATE SET
  fence     = CASE WHEN h.x_until > excluded.x_since THEN h.fence     ELSE greatest(h.fence + 1, excluded.fence) END,
  x_token   = CASE WHEN h.x_until > excluded.x_since THEN h.x_token   ELSE greatest(h.fence + 1, excluded.fence) END,
  x_since   = CASE WHEN h.x_until > excluded.x_since THEN h.x_since   ELSE excluded.x_since END,
  x_session = CASE WHEN h.x_until > excluded.x_since THEN h.x_session ELSE excluded.x_session END,
  x_live    = CASE WHEN h.x_until > excluded.x_since THEN h.x_live    ELSE excluded.x_live END,
  x_until   = greatest(h.x_until, excluded.x_until),
  departed  = h.departed + CASE WHEN h.x_id = '' OR h.x_until > excluded.x_since THEN 0 ELSE 1 END,
  x_id = excluded.x_id, x_try = excluded.x_try, x_note = excluded.x_note,
  x_need = excluded.x_need, x_limit = excluded.x_limit, x_queue = excluded.x_queue
WHERE excluded.used = 1
  AND ((h.x_until <= excluded.x_since AND h.used = 0 AND h.waiting = 0)
    OR (h.x_until > excluded.x_since AND h.x_id = excluded.x_id AND h.x_try = excluded.x_try))
RETURNING x_token
