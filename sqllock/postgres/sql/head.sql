-- head makes the name's row if it is not there, with the tokens of rows that were
-- swept below it. Where the statement sees a row it makes none, also if that is just
-- being swept: it would wait for the sweep's end, and then make a row from what was
-- noted before it. lock finds that out.
--
-- :name -> nothing
INSERT INTO {head} (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
  x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
SELECT :name, coalesce((SELECT m.fence FROM {head} m WHERE m.name = ''), 0), '', 0, 0, '', '', '', 0, 0, 0, {now}, 0, 0, 0, 0
WHERE NOT EXISTS (SELECT 1 FROM {head} b WHERE b.name = :name)
ON CONFLICT (name) DO NOTHING
