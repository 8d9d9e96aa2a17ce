//! The tables, and the functions that change them.
//!
//! A request is one call of a function, so it is a transaction of its own that ends whatever becomes of
//! its caller: no row stays locked by a process that stops. Times are milliseconds of the server's clock
//! since 1970.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_postgres::{Silent, mend_sequences};
use tokio::time::timeout;

use super::LockDatabase;
use crate::error::Error;

/// The format that this program writes.
const FORMAT: i64 = 2;

/// Several nodes may set up the tables at the same time; they do so one after the other.
const ALONE: &str =
    "SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock(x'41736343'::int)";

/// How long they may wait for each other.
const PATIENCE: Duration = Duration::from_secs(30);

const TABLES: &str = "
CREATE TABLE format (number BIGINT NOT NULL);
-- drawn by all locks, and never reset: a lock whose row was removed goes on with higher numbers
CREATE SEQUENCE epoch;
CREATE TABLE node (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ends BIGINT NOT NULL,
    lease BIGINT NOT NULL
);
-- a lock is free if it has no holder, or if its holder is no node any more
CREATE TABLE mutex (
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    holder BIGINT,
    epoch BIGINT NOT NULL DEFAULT 0,
    wanted BOOLEAN NOT NULL DEFAULT false,
    changed BIGINT NOT NULL,
    PRIMARY KEY (name, key)
);
CREATE INDEX mutex_free ON mutex (changed) WHERE holder IS NULL;
-- units of a rate that no node has are used up to `clean`, if they were given back before their period ended
CREATE TABLE quota (
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    clean BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (name, key)
);
CREATE TABLE share (
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    node BIGINT NOT NULL,
    units BIGINT NOT NULL,
    PRIMARY KEY (name, key, node)
);
CREATE TABLE counter (
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    ends BIGINT NOT NULL,
    used BIGINT NOT NULL,
    PRIMARY KEY (name, key)
);
";

/// What numbers are drawn of, and the highest ones.
pub(super) const SEQUENCES: [(&str, &str); 2] =
    [("epoch", "SELECT max(epoch) FROM mutex"), ("node_id_seq", "SELECT max(id) FROM node")];

/// What the first format lacks: the session of the last renewal, and the server that knows it.
const SESSIONS: &str = "
ALTER TABLE node ADD COLUMN session INT, ADD COLUMN server TIMESTAMPTZ;
INSERT INTO format VALUES (2);
";

const FUNCTIONS: &str = "
CREATE OR REPLACE FUNCTION now_ms() RETURNS BIGINT LANGUAGE sql VOLATILE
AS $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- not before a lease has passed since the server started: while it was away, no node could renew
CREATE OR REPLACE FUNCTION lease_end(_ends BIGINT, _lease BIGINT) RETURNS BIGINT LANGUAGE sql VOLATILE
AS $$ SELECT greatest(_ends,
    floor(extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint + _lease) $$;

CREATE OR REPLACE FUNCTION register(_lease BIGINT) RETURNS BIGINT LANGUAGE sql VOLATILE
AS $$ INSERT INTO node (ends, lease, session, server)
    VALUES (now_ms() + _lease, _lease, pg_backend_pid(), pg_postmaster_start_time()) RETURNING id $$;

CREATE OR REPLACE FUNCTION renew(_node BIGINT, _lease BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql VOLATILE
AS $$ BEGIN
    UPDATE node SET ends = now_ms() + _lease, lease = _lease,
            session = pg_backend_pid(), server = pg_postmaster_start_time()
        WHERE id = _node AND lease_end(ends, lease) > now_ms();
    RETURN FOUND;
END $$;

-- removes a node whose lease is over. One whose session is gone, on the server that it was on, has an eighth of its
-- lease left, in which it renews it if it lives
CREATE OR REPLACE FUNCTION look_at(_node BIGINT) RETURNS VOID LANGUAGE sql VOLATILE
AS $$
    -- the list of sessions is read behind the lock of the row: an earlier one lacks the session of a concurrent renewal
    SELECT FROM node WHERE id = _node FOR UPDATE;
    SELECT pg_stat_clear_snapshot();
    UPDATE node SET ends = least(ends, now_ms() + lease / 8), lease = 0, session = NULL
        WHERE id = _node AND server = pg_postmaster_start_time() AND session IS NOT NULL
            AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = session);
    DELETE FROM node WHERE id = _node AND lease_end(ends, lease) <= now_ms();
$$;

-- gives the token if the lock is taken, else how long the lease of its holder lasts; neither if the
-- caller has no lease
CREATE OR REPLACE FUNCTION take(_name TEXT, _key TEXT, _node BIGINT, OUT drawn BIGINT, OUT held_for BIGINT)
LANGUAGE plpgsql VOLATILE
AS $$ DECLARE _holder BIGINT; _ends BIGINT; BEGIN
    IF NOT EXISTS (SELECT FROM node WHERE id = _node AND lease_end(ends, lease) > now_ms()) THEN
        RETURN;
    END IF;
    LOOP
        SELECT holder INTO _holder FROM mutex WHERE name = _name AND key = _key FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO mutex (name, key, changed) VALUES (_name, _key, now_ms())
            ON CONFLICT DO NOTHING;
    END LOOP;
    IF _holder <> _node THEN
        -- a renewal that comes at the same time is waited for, and counts
        PERFORM look_at(_holder);
        SELECT lease_end(ends, lease) INTO _ends FROM node WHERE id = _holder;
        IF FOUND THEN
            UPDATE mutex SET wanted = true WHERE name = _name AND key = _key AND NOT wanted;
            held_for := greatest(_ends - now_ms(), 0);
            RETURN;
        END IF;
    END IF;
    UPDATE mutex SET holder = _node, epoch = nextval('epoch'), changed = now_ms()
        WHERE name = _name AND key = _key RETURNING epoch INTO drawn;
END $$;

CREATE OR REPLACE FUNCTION give_back(_name TEXT, _key TEXT, _epoch BIGINT) RETURNS VOID
LANGUAGE plpgsql VOLATILE
AS $$ DECLARE _wanted BOOLEAN; BEGIN
    SELECT wanted INTO _wanted FROM mutex
        WHERE name = _name AND key = _key AND epoch = _epoch AND holder IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    UPDATE mutex SET holder = NULL, wanted = false, changed = now_ms()
        WHERE name = _name AND key = _key;
    IF _wanted THEN
        PERFORM pg_notify('cluster_' || current_schema(), json_build_array(_name, _key)::text);
    END IF;
END $$;

-- the share of a node in so many units: an equal part of them, once the others have given theirs back.
-- What is new in it counts after so many milliseconds. What the node still has is not given to others
-- before the node asks again without it. Nothing if the caller has no lease
CREATE OR REPLACE FUNCTION share_in(_name TEXT, _key TEXT, _node BIGINT, _has BIGINT, _total BIGINT,
    _period BIGINT, OUT granted BIGINT, OUT counts_in BIGINT)
LANGUAGE plpgsql VOLATILE
AS $$ DECLARE _clean BIGINT; _fair BIGINT; _mine BIGINT; _others BIGINT; _dead BIGINT; BEGIN
    IF NOT EXISTS (SELECT FROM node WHERE id = _node AND lease_end(ends, lease) > now_ms()) THEN
        RETURN;
    END IF;
    LOOP
        SELECT clean INTO _clean FROM quota WHERE name = _name AND key = _key FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO quota (name, key) VALUES (_name, _key) ON CONFLICT DO NOTHING;
    END LOOP;
    FOR _dead IN SELECT node FROM share WHERE name = _name AND key = _key ORDER BY node LOOP
        PERFORM look_at(_dead);
    END LOOP;
    DELETE FROM share s WHERE s.name = _name AND s.key = _key
        AND NOT EXISTS (SELECT FROM node WHERE id = s.node);
    IF FOUND THEN _clean := now_ms() + _period; END IF;
    INSERT INTO share (name, key, node, units) VALUES (_name, _key, _node, 0)
        ON CONFLICT DO NOTHING;
    SELECT coalesce(sum(units) FILTER (WHERE node <> _node), 0),
           coalesce(sum(units) FILTER (WHERE node = _node), 0),
           -- what does not divide goes to the oldest nodes
           _total / count(*)
               + CASE WHEN count(*) FILTER (WHERE node < _node) < _total % count(*) THEN 1 ELSE 0 END
        INTO _others, _mine, _fair FROM share WHERE name = _name AND key = _key;
    granted := greatest(least(_fair, _total - _others), 0);
    _has := greatest(granted, least(_has, _mine));
    IF _has < _mine THEN _clean := now_ms() + _period; END IF;
    counts_in := greatest(_clean - now_ms(), 0);
    UPDATE share SET units = _has WHERE name = _name AND key = _key AND node = _node;
    UPDATE quota SET clean = _clean WHERE name = _name AND key = _key;
END $$;

CREATE OR REPLACE FUNCTION return_share(_name TEXT, _key TEXT, _node BIGINT, _period BIGINT) RETURNS VOID
LANGUAGE plpgsql VOLATILE
AS $$ BEGIN
    UPDATE quota SET clean = now_ms() + _period WHERE name = _name AND key = _key;
    DELETE FROM share WHERE name = _name AND key = _key AND node = _node;
END $$;

-- counts an entry; else gives how long the period lasts
CREATE OR REPLACE FUNCTION count_entry(_name TEXT, _key TEXT, _max BIGINT, _period BIGINT) RETURNS BIGINT
LANGUAGE plpgsql VOLATILE
AS $$ DECLARE _ends BIGINT; _used BIGINT; _now BIGINT; BEGIN
    LOOP
        SELECT ends, used INTO _ends, _used FROM counter WHERE name = _name AND key = _key FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO counter VALUES (_name, _key, 0, 0) ON CONFLICT DO NOTHING;
    END LOOP;
    _now := now_ms();
    IF _now >= _ends OR _ends > _now + _period THEN
        _ends := _now + _period;
        _used := 0;
    END IF;
    IF _used >= _max THEN RETURN greatest(_ends - _now, 1); END IF;
    UPDATE counter SET ends = _ends, used = _used + 1 WHERE name = _name AND key = _key;
    RETURN 0;
END $$;

CREATE OR REPLACE FUNCTION leave(_node BIGINT) RETURNS VOID LANGUAGE sql VOLATILE
AS $$ DELETE FROM node WHERE id = _node $$;

-- removes locks that were not taken for an hour, and nodes whose lease was over for an hour
CREATE OR REPLACE FUNCTION trim_rows() RETURNS VOID LANGUAGE sql VOLATILE
AS $$
    DELETE FROM mutex WHERE (name, key) IN (SELECT name, key FROM mutex
        WHERE holder IS NULL AND changed < now_ms() - 3600000
        ORDER BY changed LIMIT 1000 FOR UPDATE SKIP LOCKED);
    DELETE FROM counter WHERE (name, key) IN (SELECT name, key FROM counter
        WHERE ends < now_ms() LIMIT 1000 FOR UPDATE SKIP LOCKED);
    DELETE FROM quota WHERE (name, key) IN (SELECT name, key FROM quota q
        WHERE clean < now_ms() AND NOT EXISTS
            (SELECT FROM share s WHERE s.name = q.name AND s.key = q.key)
        LIMIT 1000 FOR UPDATE SKIP LOCKED);
    DELETE FROM node WHERE id IN (SELECT id FROM node
        WHERE lease_end(ends, lease) < now_ms() - 3600000 LIMIT 1000 FOR UPDATE SKIP LOCKED);
$$;
";

/// Makes the schema, its tables and functions, unless they are there.
pub(super) async fn set_up(database: &LockDatabase) -> Result<(), Error> {
    let (mut client, connection) = database.connect().await?;
    tokio::spawn(async move { connection.await.ok() });
    let made = async {
        let transaction = client.transaction().await?;
        transaction.batch_execute(ALONE).await?;
        let schema = &database.schema;
        transaction.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")).await?;
        let there = "SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'format'";
        if transaction.query(there, &[&schema]).await?.is_empty() {
            transaction.batch_execute(TABLES).await?;
        }
        let row = transaction.query_one("SELECT max(number) FROM format", &[]).await?;
        let found = row.try_get::<_, Option<i64>>(0)?.unwrap_or_default();
        if found > FORMAT {
            return Err(Error::NewerFormat { found, known: FORMAT });
        }
        if found < FORMAT {
            transaction.batch_execute(SESSIONS).await?;
            transaction.batch_execute(FUNCTIONS).await?;
        }
        transaction.commit().await?;
        Ok(mend_sequences(&client, &SEQUENCES).await?)
    };
    timeout(PATIENCE, made)
        .await
        .unwrap_or_else(|_| Err(Error::Unavailable(Arc::new(Silent(PATIENCE)))))
}
