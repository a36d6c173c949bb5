-- schema makes the tables of a new file. Times are microseconds: of the boot
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
  fence     INTEGER NOT NULL, -- the highest token given out on the name
  x_id      TEXT NOT NULL,    -- the exclusive holder; '' if there is none
  x_try     INTEGER NOT NULL,
  x_token   INTEGER NOT NULL,
  x_session TEXT NOT NULL,
  x_live    TEXT NOT NULL,    -- the process that must be alive
  x_note    TEXT NOT NULL,
  x_need    INTEGER NOT NULL,
  x_limit   INTEGER NOT NULL,
  x_queue   INTEGER NOT NULL,
  x_since   INTEGER NOT NULL, -- held since; free since if there is none
  x_until   INTEGER NOT NULL, -- 0 if there is none
  used      INTEGER NOT NULL, -- claims that share the name
  waiting   INTEGER NOT NULL, -- claims that wait
  departed  INTEGER NOT NULL  -- how often somebody left the line
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS pawl_claim (
  name    TEXT NOT NULL,
  token   INTEGER NOT NULL,   -- also the place in line
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
  until   INTEGER NOT NULL    -- 0: kept for ever
) STRICT, WITHOUT ROWID;

-- The row without a name is the file's counter: its fence is the highest token
-- or version ever given out in the file, so that none is given out twice even
-- after a name's row was swept and the wall clock was set back. It stands among
-- the names because a small file then has both on one page, and a commit writes
-- whole pages; it looks free, so that no statement about names finds it.

INSERT OR IGNORE INTO pawl_head (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
  x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
VALUES ('', 0, '', 0, 0, '', '', '', 0, 0, 0, 0, 0, 0, 0, 0);

-- The counter follows by triggers, so that the one-statement path stays one.

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
