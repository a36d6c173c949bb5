-- bury ends the places and shared holds of a process that is known to be dead.
--
-- :name :live -> the ids that ended
DELETE FROM {claim} WHERE name = :name AND live = :live
RETURNING id
