-- owner_rows reports whether any row belongs to a process.
--
-- :owner -> a row if so
SELECT 'named' WHERE EXISTS (SELECT 1 FROM {head} WHERE x_live = :owner AND x_id <> '')
  OR EXISTS (SELECT 1 FROM {claim} WHERE live = :owner)
