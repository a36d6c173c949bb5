-- still tells which claims of one process wait. Whoever waits in the process
-- and is not among them has been let in, or has ended.
--
-- :live -> ids
SELECT id FROM {claim} WHERE live = :live AND held = 0
