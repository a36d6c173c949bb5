-- evict breaks exactly the place or shared hold that an operator saw, if it is
-- live. A place that waits is shown with token 0.
--
-- :name :id :try :token :held -> the id that ended
DELETE FROM {claim}
WHERE name = :name AND id = :id AND try = :try AND held = :held AND until > {now}
  AND CASE held WHEN 1 THEN token ELSE 0 END = :token
RETURNING id
