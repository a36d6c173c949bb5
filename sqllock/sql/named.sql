-- named tells whether any row names a process.
--
-- :live -> a row if so
SELECT 'named' WHERE EXISTS (SELECT 1 FROM {head} WHERE x_live = :live AND x_id <> '')
  OR EXISTS (SELECT 1 FROM {claim} WHERE live = :live)
