-- head_state reads what changes in the head row with every grant and every departure,
-- for waiters that poll.
--
-- :name -> departed, token, used, waiting, 1 if there is an exclusive holder
SELECT departed, x_token, used, waiting, CASE WHEN x_id = '' THEN 0 ELSE 1 END
FROM {head} WHERE name = :name
