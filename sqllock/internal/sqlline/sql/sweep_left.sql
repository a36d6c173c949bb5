-- sweep_left reads for how long it is the turn of another process to sweep. A time
-- beyond any turn is from before the clock was set back.
--
-- :name, '' :session :ttl -> microseconds; no row: nobody has ever swept
SELECT CASE WHEN x_session = :session OR x_since <= {now} OR x_since > {now} + :ttl THEN 0 ELSE x_since - {now} END
FROM {head} WHERE name = :name
