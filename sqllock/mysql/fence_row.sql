-- The row without a name: its fence is the highest token of deleted rows.
INSERT IGNORE INTO {head} (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
  x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
VALUES ('', 0, '', 0, 0, '', '', '', 0, 0, 0, 0, 0, 0, 0, 0)
