-- waits tells which claims wait in one line. Whoever waits there and is not
-- among them has been let in, or has ended.
--
-- :name -> ids
SELECT id FROM {claim} WHERE name = :name AND held = 0
