-- make_head makes the head row of a name if there is none, with a fence above the
-- tokens of deleted rows. If the statement sees a row it inserts none, also if a sweep
-- is deleting that row: it would wait for the sweep, and then insert a row with a fence
-- read before it. lock_head detects that case.
--
-- :name -> nothing
INSERT INTO {head} (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
  x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
SELECT :name, coalesce((SELECT m.fence FROM {head} m WHERE m.name = ''), 0), '', 0, 0, '', '', '', 0, 0, 0, {now}, 0, 0, 0, 0
WHERE NOT EXISTS (SELECT 1 FROM {head} b WHERE b.name = :name)
ON CONFLICT (name) DO NOTHING
