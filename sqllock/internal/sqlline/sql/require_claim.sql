-- require_claim fails on purpose if a claim is not in the line, which rolls its batch
-- back. A dialect that can read between two statements leaves this out.
--
-- :name :id -> no result
SELECT 1 / CASE WHEN EXISTS (SELECT 1 FROM {head} WHERE name = :name AND x_id = :id)
  OR EXISTS (SELECT 1 FROM {claim} WHERE name = :name AND id = :id) THEN 1 ELSE 0 END
