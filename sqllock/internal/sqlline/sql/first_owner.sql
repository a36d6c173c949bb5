-- first_owner reads which process has the first waiting claim of a line.
--
-- :name -> owner
SELECT live FROM {claim} WHERE name = :name AND held = 0 ORDER BY token LIMIT 1
