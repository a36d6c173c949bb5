-- evict_claim ends exactly the row of the claim table that an operator saw, if it is
-- live. List shows a waiting claim with token 0. It fails if a guard is open.
--
-- :name :id :try :token :held -> the id that ended
UPDATE {claim} c SET until = 0
FROM (SELECT token FROM {claim} WHERE name = :name AND id = :id AND try = :try AND held = :held AND until > {now}
  AND CASE held WHEN 1 THEN token ELSE 0 END = :token FOR UPDATE NOWAIT) f
WHERE c.name = :name AND c.token = f.token
RETURNING c.id
