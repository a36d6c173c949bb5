-- find_claim reports where a live claim is: 1 for the head row, 0 for the claim table.
--
-- :name :id :try -> place, token; no row: it has ended
SELECT 1, x_token FROM {head}
WHERE name = :name AND x_id = :id AND x_try = :try AND x_until > {now}
UNION ALL
SELECT 0, token FROM {claim}
WHERE name = :name AND id = :id AND try = :try AND until > {now}
