-- require_claim fails on purpose if a claim is not in the line, which rolls its batch
-- back. An integer overflow is an error in every sql_mode.
--
-- :name :id -> no result
SELECT 9223372036854775807 + CASE WHEN EXISTS (SELECT 1 FROM {head} WHERE name = :name AND x_id = :id)
  OR EXISTS (SELECT 1 FROM {claim} WHERE name = :name AND id = :id) THEN 0 ELSE 1 END
