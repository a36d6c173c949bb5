-- delete_promoted deletes the row of the claim that promote moved into the head row.
--
-- :name -> nothing
DELETE FROM {claim}
WHERE name = :name AND token = (SELECT h.x_token FROM {head} h WHERE h.name = :name AND h.x_id <> '')
