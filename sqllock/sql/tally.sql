-- tally notes departures from the line, after claims were ended and before one
-- is added or moved: used + waiting still count the rows as the last flight
-- left them.
--
-- :name -> nothing
UPDATE {head}
SET departed = departed + 1
WHERE name = :name AND used + waiting > (SELECT count(*) FROM {claim} c WHERE c.name = :name)
