//! The tags of flows.

use super::session::{JournalSession, SessionFailure};
use crate::id::Uid;

/// Programs that know no tags ignore the table, so it is no other format; tags go with their flow whoever removes that.
pub(super) const TABLE: &str = r#"CREATE TABLE IF NOT EXISTS flow_tag (
    flow BIGINT NOT NULL REFERENCES flow (number) ON DELETE CASCADE,
    tag TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (flow, tag)
);
CREATE INDEX IF NOT EXISTS flow_tag_flow ON flow_tag (tag, flow);"#;

/// Stores the tags of a flow that is new.
pub(super) async fn insert(
    session: &JournalSession,
    flow: Uid,
    tags: &[String],
) -> Result<(), SessionFailure> {
    if tags.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO flow_tag (flow, tag) SELECT DISTINCT number, tag \
               FROM flow, unnest($2::text[]) AS tag WHERE uid = $1";
    session.execute(sql, &[&flow.as_bytes().as_slice(), &tags]).await?;
    Ok(())
}
