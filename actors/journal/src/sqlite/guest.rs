//! The limits for bodies of the application on the connection of the journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// The savepoint around a body.
pub(super) const SAVEPOINT: &str = "asyncsteps_body";

/// The tables of the journal.
const TABLES: [&str; 9] =
    ["emitted", "flow", "flow_tag", "journal", "node", "program", "record", "schedule", "signal"];

/// Whether a body of the application uses the connection.
pub(super) struct Guest(Arc<AtomicBool>);

/// A body uses the connection, until this is dropped.
pub(super) struct GuestUse<'a>(&'a Guest);

impl Guest {
    /// From now on bodies of the application can neither end a transaction nor write to the tables of the
    /// journal.
    pub(super) fn watch(db: &mut Connection) -> rusqlite::Result<Self> {
        let is_inside = Arc::<AtomicBool>::default();
        let guest = Self(Arc::clone(&is_inside));
        let authorize = move |context: AuthContext<'_>| {
            if is_inside.load(Ordering::Relaxed) && is_denied(&context.action) {
                Authorization::Deny
            } else {
                Authorization::Allow
            }
        };
        db.authorizer(Some(authorize))?;
        Ok(guest)
    }

    /// A body begins.
    pub(super) fn enter(&self) -> GuestUse<'_> {
        self.0.store(true, Ordering::Relaxed);
        GuestUse(self)
    }
}

impl Drop for GuestUse<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Relaxed);
    }
}

fn is_denied(action: &AuthAction<'_>) -> bool {
    use AuthAction::{
        AlterTable, Attach, CreateIndex, CreateTrigger, Delete, Detach, DropIndex, DropTable,
        Insert, Savepoint, Transaction, Update,
    };
    let is_ours = |table: &str| TABLES.iter().any(|own| table.eq_ignore_ascii_case(own));
    matches!(action, Transaction { .. } | Attach { .. } | Detach { .. })
        || matches!(action, Savepoint { savepoint_name, .. } if savepoint_name.eq_ignore_ascii_case(SAVEPOINT))
        || matches!(
            action,
            AlterTable { table_name, .. }
                | CreateIndex { table_name, .. }
                | CreateTrigger { table_name, .. }
                | Delete { table_name }
                | DropIndex { table_name, .. }
                | DropTable { table_name }
                | Insert { table_name }
                | Update { table_name, .. } if is_ours(table_name)
        )
}
