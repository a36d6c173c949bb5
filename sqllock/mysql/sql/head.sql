-- head makes the name's row if it is not there, with the tokens of rows that were
-- swept below it. It is a flight of its own: who makes a row and then locks others in
-- one transaction is who deadlocks. The row that notes swept tokens is held, so that
-- a sweep under way is waited for before it is read, and not after.
--
-- :name -> nothing
INSERT IGNORE INTO {head} (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
  x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
SELECT :name, m.swept, '', 0, 0, '', '', '', 0, 0, 0, {now}, 0, 0, 0, 0
FROM (SELECT COALESCE(MAX(fence), 0) AS swept FROM {head} WHERE name = '' LOCK IN SHARE MODE) m
