-- front holds the first place in line until the flight has ended, so that the
-- expiry which promote copies is the one that a beat under way has set. A
-- dialect whose promote does that itself leaves it out.
--
-- :name -> nothing of use
SELECT token FROM {claim} WHERE name = :name ORDER BY token LIMIT 1 FOR UPDATE
