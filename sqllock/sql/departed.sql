-- departed tells how often somebody has left a name's line. The count starts
-- again when an idle row was swept, so only a difference means something.
--
-- :name -> count
SELECT departed FROM {head} WHERE name = :name
