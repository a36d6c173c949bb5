-- prune ends the places in line whose time is over. Those who wait for them look
-- by themselves.
--
-- :name -> nothing
DELETE FROM {claim} WHERE name = :name AND until <= {now}
