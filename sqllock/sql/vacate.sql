-- vacate takes the claim that promote moved out of the line.
--
-- :name -> nothing
DELETE FROM {claim}
WHERE name = :name AND token = (SELECT h.x_token FROM {head} h WHERE h.name = :name AND h.x_id <> '')
