-- save_fence records the highest token of head rows that are about to be deleted, in
-- the row without a name: the next row of a name starts above it. The server's clock
-- alone would not do: it may have been ahead when the name was last used, and correct
-- again now. Every sweep locks this row first, so that two sweeps cannot deadlock.
--
-- :names -> nothing
INSERT INTO {head} AS m (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
  x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
SELECT '', coalesce(max(h.fence), 0), '', 0, 0, '', '', '', 0, 0, 0, 0, 0, 0, 0, 0 FROM {head} h WHERE h.name = ANY (:names)
ON CONFLICT (name) DO UPDATE SET fence = greatest(m.fence, excluded.fence)
