-- peek reads what changes in the head row whenever somebody's turn comes or
-- somebody leaves, for those who look by themselves.
--
-- :name -> departed, token, used, waiting, 1 if it is held whole
SELECT departed, x_token, used, waiting, CASE WHEN x_id = '' THEN 0 ELSE 1 END
FROM {head} WHERE name = :name
