-- head makes the name's row if it is not there. It is a flight of its own: who
-- makes a row and then locks others in one transaction is who deadlocks.
--
-- :name -> nothing
INSERT IGNORE INTO {head} (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
  x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
VALUES (:name, 0, '', 0, 0, '', '', '', 0, 0, 0, {now}, 0, 0, 0, 0)
