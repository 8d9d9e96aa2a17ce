//! Sequences that are behind their tables.

use tokio_postgres::{Client, Error, SimpleQueryMessage};

/// How far behind the highest number that is there a sequence goes on: there may have been higher ones, which were removed.
const GAP: i64 = 1 << 20;

/// Lets sequences go on behind the numbers that were drawn of them, and logs those that were not. Logical replication copies
/// rows, and leaves sequences where they were. `drawn` has the name of each, and a query for the highest number.
///
/// # Errors
/// Those of the server.
pub async fn mend_sequences(client: &Client, drawn: &[(&str, &str)]) -> Result<(), Error> {
    let each = drawn.iter().map(|(sequence, highest)| {
        format!(
            "SELECT '{sequence}', drawn.highest, setval('{sequence}', drawn.highest + {GAP}) \
             FROM ({highest}) AS drawn (highest), {sequence} AS behind \
             WHERE drawn.highest >= behind.last_value + behind.is_called::int"
        )
    });
    let sql = each.collect::<Vec<_>>().join(" UNION ALL ");
    for message in client.simple_query(&sql).await? {
        if let SimpleQueryMessage::Row(row) = message {
            let (sequence, highest, next) = (row.get(0), row.get(1), row.get(2));
            tracing::warn!(
                sequence,
                highest,
                next,
                "a sequence was behind its table, as after a switch by logical replication: it goes on"
            );
        }
    }
    Ok(())
}
