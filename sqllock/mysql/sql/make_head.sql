-- make_head makes the head row of a name if there is none, with a fence above the
-- tokens of deleted rows. It is a batch by itself: a transaction that makes a row and
-- then locks others can deadlock. The row that records the tokens of deleted rows is
-- locked, so that the statement waits for a concurrent sweep before it reads the row,
-- and not after.
--
-- :name -> nothing
INSERT IGNORE INTO {head} (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
  x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
SELECT :name, m.swept, '', 0, 0, '', '', '', 0, 0, 0, {now}, 0, 0, 0, 0
FROM (SELECT COALESCE(MAX(fence), 0) AS swept FROM {head} WHERE name = '' LOCK IN SHARE MODE) m
