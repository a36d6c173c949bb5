-- schema.sql makes the tables of pawl. Times are microseconds since 1970, UTC, by
-- the server's clock. Names are compared byte by byte, and there is no index
-- but the primary key.

CREATE TABLE IF NOT EXISTS {meta} (
  one     INT PRIMARY KEY,
  version INT NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO {meta} (one, version) VALUES (1, 1);

-- One row per name, kept while the name is in use, and one without a name.
CREATE TABLE IF NOT EXISTS {head} (
  name      VARBINARY(767) PRIMARY KEY,
  fence     BIGINT NOT NULL,          -- the highest token of the name
  -- The exclusive holder, always 32 characters; '' if there is none. The length is
  -- fixed, so that taking and releasing the name updates the row in place.
  x_id      CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  x_try     BIGINT NOT NULL,
  x_token   BIGINT NOT NULL,
  x_session VARBINARY(255) NOT NULL,
  x_live    VARBINARY(255) NOT NULL,
  x_note    VARBINARY(1024) NOT NULL,
  x_need    INT NOT NULL,
  x_limit   INT NOT NULL,
  x_queue   INT NOT NULL,
  x_since   BIGINT NOT NULL,          -- held since; free since, if there is no holder
  x_until   BIGINT NOT NULL,          -- 0 if there is no holder
  used      INT NOT NULL,             -- shared holds
  waiting   INT NOT NULL,             -- waiting claims
  departed  BIGINT NOT NULL           -- number of departures from the line
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- One row per waiting claim and per shared hold.
CREATE TABLE IF NOT EXISTS {claim} (
  name    VARBINARY(767) NOT NULL,
  token   BIGINT NOT NULL,            -- also the order in the line
  id      VARBINARY(255) NOT NULL,
  try     BIGINT NOT NULL,
  session VARBINARY(255) NOT NULL,
  live    VARBINARY(255) NOT NULL,
  note    VARBINARY(1024) NOT NULL,
  need    INT NOT NULL,
  lim     INT NOT NULL,
  queue   INT NOT NULL,
  held    INT NOT NULL,
  since   BIGINT NOT NULL,
  until   BIGINT NOT NULL,
  PRIMARY KEY (name, token)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS {record} (
  name    VARBINARY(767) PRIMARY KEY,
  version BIGINT NOT NULL,
  value   MEDIUMBLOB NOT NULL,
  until   BIGINT NOT NULL             -- 0: never ends
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
