-- schema.sql makes the tables of pawl. Times are microseconds since 1970, UTC, by
-- the server's clock. Names are compared byte by byte.

CREATE TABLE IF NOT EXISTS {meta} (
  one    integer PRIMARY KEY CHECK (one = 1),
  schema integer NOT NULL
);

INSERT INTO {meta} (one, schema) VALUES (1, 1) ON CONFLICT DO NOTHING;

-- One row per name, kept while the name is in use. The fillfactor leaves room on a page
-- for updates in place. The row without a name is made by the first sweep: its fence is
-- the highest token of deleted rows.
CREATE TABLE IF NOT EXISTS {head} (
  name      text COLLATE "C" PRIMARY KEY,
  fence     bigint  NOT NULL, -- the highest token of the name
  x_id      text    NOT NULL, -- the exclusive holder; '' if there is none
  x_try     bigint  NOT NULL,
  x_token   bigint  NOT NULL,
  x_session text    NOT NULL,
  x_live    text    NOT NULL,
  x_note    bytea   NOT NULL,
  x_need    integer NOT NULL,
  x_limit   integer NOT NULL,
  x_queue   integer NOT NULL,
  x_since   bigint  NOT NULL, -- held since; free since, if there is no holder
  x_until   bigint  NOT NULL, -- 0 if there is no holder
  used      integer NOT NULL, -- shared holds
  waiting   integer NOT NULL, -- waiting claims
  departed  bigint  NOT NULL  -- number of departures from the line
) WITH (fillfactor = 50);

-- One row per waiting claim and per shared hold.
CREATE TABLE IF NOT EXISTS {claim} (
  name    text COLLATE "C" NOT NULL,
  token   bigint  NOT NULL, -- also the order in the line
  id      text    NOT NULL,
  try     bigint  NOT NULL,
  session text    NOT NULL,
  live    text    NOT NULL,
  note    bytea   NOT NULL,
  need    integer NOT NULL,
  lim     integer NOT NULL,
  queue   integer NOT NULL,
  held    integer NOT NULL,
  since   bigint  NOT NULL,
  until   bigint  NOT NULL, -- 0: ended, while a guard is open
  PRIMARY KEY (name, token)
) WITH (fillfactor = 70);

CREATE TABLE IF NOT EXISTS {record} (
  name    text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL,
  value   bytea  NOT NULL,
  until   bigint NOT NULL -- 0: never ends
);
