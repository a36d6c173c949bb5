-- save_fence records the highest token of head rows that are about to be deleted, in
-- the row without a name: the next row of a name starts above it. The server's clock
-- alone would not do: it may have been ahead when the name was last used, and correct
-- again now. Sweeping and making a row both lock this row first.
--
-- :names -> nothing
INSERT INTO {head} (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
  x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
SELECT '', s.swept, '', 0, 0, '', '', '', 0, 0, 0, 0, 0, 0, 0, 0
FROM (SELECT COALESCE(MAX(fence), 0) AS swept FROM {head} WHERE name IN (:names)) s
ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))
