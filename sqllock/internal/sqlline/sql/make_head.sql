-- make_head makes the head row of a name if there is none.
--
-- :name -> nothing
INSERT INTO {head} (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
  x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
VALUES (:name, 0, '', 0, 0, '', '', '', 0, 0, 0, {now}, 0, 0, 0, 0)
ON CONFLICT (name) DO NOTHING
