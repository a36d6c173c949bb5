-- veto fails, on purpose, if a claim is not in the line: then the flight it
-- travels in is undone. A dialect that can decide between two statements
-- leaves it out.
--
-- :name :id -> nothing of use
SELECT 1 / CASE WHEN EXISTS (SELECT 1 FROM {head} WHERE name = :name AND x_id = :id)
  OR EXISTS (SELECT 1 FROM {claim} WHERE name = :name AND id = :id) THEN 1 ELSE 0 END
