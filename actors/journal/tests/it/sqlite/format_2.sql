-- A journal of format 2, as the program that wrote it left it: a request that has ended, one that is parked before
-- its second attempt, and one whose owner died.
PRAGMA application_id = 1098074732;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE flow (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    uid BLOB NOT NULL UNIQUE,
    template TEXT NOT NULL,
    version INTEGER NOT NULL,
    pinned INTEGER NOT NULL,
    state INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    owner INTEGER,
    ticket BLOB,
    run INTEGER NOT NULL,
    claims INTEGER NOT NULL,
    deaths INTEGER NOT NULL,
    inbox INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    created INTEGER NOT NULL,
    due INTEGER,
    ended INTEGER,
    reason TEXT,
    cancel_number INTEGER,
    cancel_by TEXT,
    cancel_at INTEGER,
    scope TEXT,
    key TEXT
, due_passed BIGINT, ended_seen BIGINT, cancel_code TEXT, cancel_text TEXT, caller TEXT);
INSERT INTO "flow" VALUES(1,X'01010101010101010101010101010101','t',1,0,7,1,NULL,NULL,0,0,0,0,0,0,1700000019902,NULL,1700000019909,NULL,NULL,NULL,NULL,'s','k',NULL,1700000019909,NULL,NULL,NULL);
INSERT INTO "flow" VALUES(2,X'02020202020202020202020202020202','t',1,0,4,1,NULL,NULL,0,0,0,0,0,0,1700000019903,1700000030000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "flow" VALUES(3,X'03030303030303030303030303030303','t',1,0,3,1,1,NULL,0,0,0,0,0,0,1700000019908,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE journal (id BLOB NOT NULL,
                wall BIGINT,
                passed BIGINT NOT NULL,
                seen BIGINT NOT NULL,
                doubt_from BIGINT,
                doubt_since BIGINT
            );
INSERT INTO "journal" VALUES(X'0A0B0C0D0E0F0A0B0C0D0E0F0A0B0C0D',NULL,0,1700000019909,NULL,NULL);
CREATE TABLE node (id INTEGER PRIMARY KEY AUTOINCREMENT, ends INTEGER NOT NULL);
INSERT INTO "node" VALUES(1,1700000029900);
CREATE TABLE program (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
INSERT INTO "program" VALUES(1,'test 1.0');
CREATE TABLE record (
    flow INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    path TEXT NOT NULL,
    kind INTEGER NOT NULL,
    program INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (flow, epoch, sequence)
) WITHOUT ROWID;
INSERT INTO "record" VALUES(1,0,0,'t',1,1,X'846174018201418063616E6E');
INSERT INTO "record" VALUES(1,1,1,'t',11,1,X'818200818201456470616964');
INSERT INTO "record" VALUES(2,0,0,'t',1,1,X'846174018201418063616E6E');
INSERT INTO "record" VALUES(2,1,1,'t/pay',6,1,X'821B0000018BCFE5DD3002');
INSERT INTO "record" VALUES(3,0,0,'t',1,1,X'846174018201418063616E6E');
INSERT INTO "record" VALUES(3,1,1,'t/loop#1',3,1,X'8382014564646F6E650100');
CREATE TABLE signal (
    flow INTEGER NOT NULL,
    number INTEGER NOT NULL,
    id BLOB NOT NULL,
    name TEXT NOT NULL,
    value BLOB,
    PRIMARY KEY (flow, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX flow_key ON flow (scope, key) WHERE key IS NOT NULL;
CREATE INDEX flow_state ON flow (state, template, version, number);
CREATE INDEX flow_due ON flow (due) WHERE state = 4;
CREATE INDEX flow_owner ON flow (owner, number) WHERE owner IS NOT NULL;
CREATE INDEX flow_ticket ON flow (ticket) WHERE ticket IS NOT NULL;
CREATE INDEX flow_suspect ON flow (owner) WHERE claims > 0;
CREATE INDEX flow_news ON flow (owner) WHERE inbox > seen;
CREATE UNIQUE INDEX signal_id ON signal (flow, id);
CREATE INDEX flow_ended ON flow (ended_seen) WHERE ended_seen IS NOT NULL;
CREATE INDEX flow_due_passed ON flow (due_passed)
                WHERE state = 4 AND due_passed IS NOT NULL;
CREATE INDEX flow_waiting ON flow (caller, state) WHERE caller IS NOT NULL AND state IN (0, 1, 2, 4, 5, 6);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('node',1);
INSERT INTO "sqlite_sequence" VALUES('flow',3);
COMMIT;
