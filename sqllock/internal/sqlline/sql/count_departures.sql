-- count_departures counts a departure if rows have left the line. It runs after claims
-- were deleted and before one is added or moved: until then used + waiting is the
-- number of rows that the last batch left.
--
-- :name -> nothing
UPDATE {head}
SET departed = departed + 1
WHERE name = :name AND used + waiting > (SELECT count(*) FROM {claim} c WHERE c.name = :name)
