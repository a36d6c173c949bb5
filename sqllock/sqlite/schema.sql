-- schema.sql makes the tables of a new file. Times are microseconds: of the boot
-- clock for claims, of the wall clock for records and tokens.

CREATE TABLE IF NOT EXISTS pawl_meta (
  one    INTEGER PRIMARY KEY CHECK (one = 1),
  schema INTEGER NOT NULL,
  boot   TEXT NOT NULL,    -- the boot whose clock the expiries are on
  space  TEXT NOT NULL     -- the time namespace likewise
) STRICT;

INSERT OR IGNORE INTO pawl_meta (one, schema, boot, space) VALUES (1, 1, '', '');

CREATE TABLE IF NOT EXISTS pawl_head (
  name      TEXT PRIMARY KEY NOT NULL,
  fence     INTEGER NOT NULL, -- the highest token of the name
  x_id      TEXT NOT NULL,    -- the exclusive holder; '' if there is none
  x_try     INTEGER NOT NULL,
  x_token   INTEGER NOT NULL,
  x_session TEXT NOT NULL,
  x_live    TEXT NOT NULL,    -- the process that owns it: the name of its liveness file
  x_note    TEXT NOT NULL,
  x_need    INTEGER NOT NULL,
  x_limit   INTEGER NOT NULL,
  x_queue   INTEGER NOT NULL,
  x_since   INTEGER NOT NULL, -- held since; free since, if there is no holder
  x_until   INTEGER NOT NULL, -- 0 if there is no holder
  used      INTEGER NOT NULL, -- shared holds
  waiting   INTEGER NOT NULL, -- waiting claims
  departed  INTEGER NOT NULL  -- number of departures from the line
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS pawl_claim (
  name    TEXT NOT NULL,
  token   INTEGER NOT NULL,   -- also the order in the line
  id      TEXT NOT NULL,
  try     INTEGER NOT NULL,
  session TEXT NOT NULL,
  live    TEXT NOT NULL,
  note    TEXT NOT NULL,
  need    INTEGER NOT NULL,
  lim     INTEGER NOT NULL,
  queue   INTEGER NOT NULL,
  held    INTEGER NOT NULL,
  since   INTEGER NOT NULL,
  until   INTEGER NOT NULL,
  PRIMARY KEY (name, token)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS pawl_record (
  name    TEXT PRIMARY KEY NOT NULL,
  version INTEGER NOT NULL,
  value   BLOB NOT NULL,
  until   INTEGER NOT NULL    -- 0: never ends
) STRICT, WITHOUT ROWID;

-- The row without a name is the file's counter: its fence is the highest token or
-- version of the file, so that none repeats even after a name's row was deleted and the
-- wall clock was set back. It is in this table because a small file then has both rows on
-- one page, and a commit writes whole pages; it looks like a free name, so that no
-- statement about names finds it.

INSERT OR IGNORE INTO pawl_head (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
  x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
VALUES ('', 0, '', 0, 0, '', '', '', 0, 0, 0, 0, 0, 0, 0, 0);

-- Triggers update the counter, so that taking a free name stays one statement.

CREATE TRIGGER IF NOT EXISTS pawl_head_new AFTER INSERT ON pawl_head WHEN NEW.fence > 0
BEGIN
  UPDATE pawl_head SET fence = NEW.fence WHERE name = '' AND fence < NEW.fence;
END;

CREATE TRIGGER IF NOT EXISTS pawl_head_raised AFTER UPDATE OF fence ON pawl_head
WHEN NEW.fence > OLD.fence AND NEW.name <> ''
BEGIN
  UPDATE pawl_head SET fence = NEW.fence WHERE name = '' AND fence < NEW.fence;
END;

CREATE TRIGGER IF NOT EXISTS pawl_record_new AFTER INSERT ON pawl_record
BEGIN
  UPDATE pawl_head SET fence = NEW.version WHERE name = '' AND fence < NEW.version;
END;

CREATE TRIGGER IF NOT EXISTS pawl_record_raised AFTER UPDATE OF version ON pawl_record
BEGIN
  UPDATE pawl_head SET fence = NEW.version WHERE name = '' AND fence < NEW.version;
END;
