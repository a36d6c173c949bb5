-- store_record writes a record if its version is the expected one; 0 expects none.
-- Records outlive a restart of the machine, so they end by the wall clock.
--
-- :name :value :version :keep -> the new version; no row: the version is another
INSERT INTO {record} AS r (name, version, value, until)
SELECT :name, {mint}, :value, CASE WHEN :keep = 0 THEN 0 ELSE {wall} + :keep END
WHERE :version = 0
  OR EXISTS (SELECT 1 FROM {record} o WHERE o.name = :name AND o.version = :version AND (o.until = 0 OR o.until > {wall}))
ON CONFLICT (name) DO UPDATE SET
  version = {max}(r.version + 1, excluded.version), value = excluded.value, until = excluded.until
WHERE CASE WHEN r.until <> 0 AND r.until <= {wall} THEN 0 ELSE r.version END = :version
RETURNING version
