-- evict_claim ends exactly the row of the claim table that an operator saw, if it is
-- live. List shows a waiting claim with token 0.
--
-- :name :id :try :token :held -> the id that ended
DELETE FROM {claim}
WHERE name = :name AND id = :id AND try = :try AND held = :held AND until > {now}
  AND CASE held WHEN 1 THEN token ELSE 0 END = :token
RETURNING id
