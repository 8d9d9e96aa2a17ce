//! Checking tokens where effects happen: in the transaction of the effect.
//!
//! A table next to the data keeps the highest token of each lock. The transaction of an effect
//! first stores its own token there; if that changes no row, a later holder was there before, and
//! the transaction is to be rolled back.
//!
//! ```
//! use asyncsteps_cluster::{FencingToken, sql};
//!
//! fn sell(shop: &mut rusqlite::Connection, fence: &FencingToken) -> rusqlite::Result<bool> {
//!     let effect = shop.transaction()?;
//!     let fenced = sql::fenced(fence);
//!     if effect.execute(sql::SQLITE, (fenced.lock, fenced.key, fenced.epoch))? == 0 {
//!         return Ok(false); // dropped: rolled back
//!     }
//!     effect.execute("UPDATE stock SET count = count - 1", ())?;
//!     effect.commit()?;
//!     Ok(true)
//! }
//!
//! let mut shop = rusqlite::Connection::open_in_memory()?;
//! shop.execute_batch(sql::TABLE)?;
//! shop.execute_batch("CREATE TABLE stock (count INT); INSERT INTO stock VALUES (9)")?;
//! let (before, now) = (FencingToken::new("stock", "", 7), FencingToken::new("stock", "", 8));
//! assert!(sell(&mut shop, &before)? && sell(&mut shop, &now)? && sell(&mut shop, &now)?);
//! assert!(!sell(&mut shop, &before)?, "its lease was over");
//! # Ok::<(), rusqlite::Error>(())
//! ```
//!
//! Where the effect is one row that only holders of the lock write, a column in it does the same without
//! a table: `UPDATE stock SET count = $2, fence = $1 WHERE sku = $3 AND fence <= $1`.
//!
//! Rows of [`TABLE`] are small, and must stay as long as an effect with an old token may come.

use asyncsteps_actors::sync::FencingToken;

/// Makes the table of tokens, in SQLite and in PostgreSQL.
pub const TABLE: &str = "CREATE TABLE IF NOT EXISTS fence (lock TEXT NOT NULL, key TEXT NOT NULL, \
                         epoch BIGINT NOT NULL, PRIMARY KEY (lock, key))";

/// Stores a token in SQLite, see [`fenced`]: changes one row, or none if a higher token is there. The
/// transaction should be immediate, so that it does not fail for another writer.
pub const SQLITE: &str = "INSERT INTO fence (lock, key, epoch) VALUES (?1, ?2, ?3) \
                          ON CONFLICT (lock, key) DO UPDATE SET epoch = excluded.epoch \
                          WHERE fence.epoch <= excluded.epoch";

/// The same in PostgreSQL. A transaction that stores a token of a lock waits for another one that does.
pub const POSTGRES: &str = "INSERT INTO fence (lock, key, epoch) VALUES ($1, $2, $3) \
                            ON CONFLICT (lock, key) DO UPDATE SET epoch = excluded.epoch \
                            WHERE fence.epoch <= excluded.epoch";

/// The three values of [`SQLITE`] and [`POSTGRES`], in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fenced<'a> {
    /// The name of the lock.
    pub lock: &'a str,
    /// Its key; empty for the lock itself.
    pub key: &'a str,
    /// The number of its holder.
    pub epoch: i64,
}

/// The values of the statement that stores this token.
#[must_use]
pub fn fenced(fence: &FencingToken) -> Fenced<'_> {
    let epoch = i64::try_from(fence.epoch()).unwrap_or(i64::MAX);
    Fenced { lock: fence.lock(), key: fence.key(), epoch }
}
