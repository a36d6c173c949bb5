-- sweep_turn notes in the row without a name that it is a process's turn to sweep, unless
-- it is another's.
--
-- :name, '' :session :ttl -> a row if so
UPDATE {head} SET x_since = {now} + :ttl, x_session = :session
WHERE name = :name AND (x_session = :session OR x_since <= {now} OR x_since > {now} + :ttl);
SELECT 1 FROM dual WHERE ROW_COUNT() > 0
