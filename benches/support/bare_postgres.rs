//! What PostgreSQL does for a record without a journal.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

/// A table of records in PostgreSQL without a journal, and one of flows.
pub(crate) struct BarePostgres {
    db: Client,
    lock: Statement,
    insert: Statement,
    note: Statement,
    next: i64,
}

impl BarePostgres {
    pub(crate) async fn open(db: Client, name: &str) -> Self {
        let tables = format!(
            "CREATE TABLE {name} (flow BIGINT, epoch BIGINT, sequence BIGINT, path TEXT, kind INTEGER, \
             program INTEGER, body BYTEA, PRIMARY KEY (flow, epoch, sequence)); \
             CREATE TABLE {name}_flow (id BIGINT PRIMARY KEY, epoch BIGINT, last BIGINT); \
             INSERT INTO {name}_flow VALUES (1, 1, 0)"
        );
        db.batch_execute(&tables).await.expect("tables");
        let lock = format!(
            "SELECT epoch, last, clock_timestamp()::TEXT FROM {name}_flow WHERE id = 1 FOR UPDATE"
        );
        let insert = format!("INSERT INTO {name} VALUES (1, 1, $1, $2, 3, 1, $3)");
        let note = format!("UPDATE {name}_flow SET last = $1 WHERE id = 1");
        let lock = db.prepare(&lock).await.expect("a statement");
        let insert = db.prepare(&insert).await.expect("a statement");
        let note = db.prepare(&note).await.expect("a statement");
        Self { db, lock, insert, note, next: 0 }
    }

    /// What a durable step does at least: its flow is locked, and looked at whether it is still its owner's, before its
    /// record is written, and what it has is noted. The server is waited for twice.
    pub(crate) async fn append(&mut self) {
        self.next += 1;
        let path = format!("demo.shop:order/items#{}", self.next);
        let begun = self.db.batch_execute("BEGIN");
        let locked = self.db.query_one(&self.lock, &[]);
        let (_, flow) = futures_util::try_join!(begun, locked).expect("the flow");
        assert_eq!((flow.get::<_, i64>(0), flow.get::<_, i64>(1)), (1, self.next - 1));
        let values: [&(dyn ToSql + Sync); 3] = [&self.next, &path, &&[7_u8; 30][..]];
        let row = self.db.execute(&self.insert, &values);
        let noted = self.db.execute(&self.note, &values[..1]);
        futures_util::try_join!(row, noted, self.db.batch_execute("COMMIT")).expect("a commit");
    }

    pub(crate) async fn commit(&mut self) {
        self.next += 1;
        let path = format!("demo.shop:order/items#{}", self.next);
        let change = self.db.transaction().await.expect("a transaction");
        let row = change.execute(&self.insert, &[&self.next, &path, &&[7_u8; 30][..]]).await;
        row.expect("a row");
        change.commit().await.expect("a commit");
    }
}
