-- veto fails, on purpose, if a claim is not in the line: then the flight it
-- travels in is undone. Numbers that grow too large are an error in every mode.
--
-- :name :id -> nothing of use
SELECT 9223372036854775807 + CASE WHEN EXISTS (SELECT 1 FROM {head} WHERE name = :name AND x_id = :id)
  OR EXISTS (SELECT 1 FROM {claim} WHERE name = :name AND id = :id) THEN 0 ELSE 1 END
