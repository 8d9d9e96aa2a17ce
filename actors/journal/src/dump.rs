//! The open flows of a journal, as a file.

use minicbor::{Decode, Encode};

use crate::coding::{Encoded, encoded};
use crate::error::{Error, Refused};
use crate::head::FlowHead;
use crate::id::{Epoch, RecordId, Uid};
use crate::journal::Journal;
use crate::limits::BATCH;
use crate::moment::Moment;
use crate::path::Path;
use crate::record::{Event, StoredRecord};
use crate::request::{FirstOwner, FlowState, Inbox, Loaded, Query, Submit};

/// The flows of a journal that have not ended, with their records and without their inboxes: for checks of a program
/// before it is deployed.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    flows: Vec<Loaded>,
}

/// Bytes are no [`Dump`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no dump of a journal: {0}")]
pub struct ParseDumpError(String);

/// The format that this program writes.
const FORMAT: u8 = 1;

#[derive(Encode, Decode)]
struct DumpFile {
    #[n(0)]
    format: u8,
    #[n(1)]
    flows: Vec<DumpedFlow>,
}

#[derive(Encode, Decode)]
struct DumpedFlow {
    #[cbor(n(0), with = "minicbor::bytes")]
    uid: [u8; 16],
    #[n(1)]
    version: u32,
    #[n(2)]
    run: u32,
    #[n(3)]
    records: Vec<DumpedRecord>,
}

#[derive(Encode, Decode)]
struct DumpedRecord {
    #[n(0)]
    epoch: u64,
    #[n(1)]
    sequence: u64,
    #[n(2)]
    path: Path,
    #[n(3)]
    kind: u8,
    #[cbor(n(4), with = "minicbor::bytes")]
    body: Vec<u8>,
}

impl Dump {
    /// The open flows of a journal, oldest first. A flow that begins, goes on or ends meanwhile is there as
    /// it was at some time, or not at all.
    ///
    /// # Errors
    /// The errors of [`Journal::list`] and [`Journal::load`].
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn read(journal: &dyn Journal) -> Result<Self, Error> {
        let (mut flows, mut after) = (Vec::new(), 0);
        loop {
            let query = Query { after, limit: BATCH, ..Query::default() };
            let page = journal.list(query).await?;
            let Some(last) = page.last() else { return Ok(Self { flows }) };
            after = last.number;
            for flow in page.iter().filter(|flow| flow.state != FlowState::Ended) {
                match journal.load(flow.uid).await {
                    Ok(loaded) => flows.push(loaded),
                    // it has ended, and was dropped
                    Err(Error::Refused(Refused::NoFlow(_))) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// The flows.
    #[must_use]
    pub fn flows(&self) -> &[Loaded] {
        &self.flows
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// If a record is larger than journals store.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Refused> {
        let flows = self.flows.iter().map(written).collect::<Result<_, _>>()?;
        let mut bytes = Vec::new();
        let written = minicbor::encode(DumpFile { format: FORMAT, flows }, &mut bytes);
        debug_assert!(written.is_ok(), "a vector takes all bytes");
        Ok(bytes)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// If they are not the bytes of a dump, or a later program wrote it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ParseDumpError> {
        let wrong = |error: minicbor::decode::Error| ParseDumpError(error.to_string());
        let mut decoder = minicbor::Decoder::new(bytes);
        let DumpFile { format, flows } = decoder.decode().map_err(wrong)?;
        if format != FORMAT {
            return Err(ParseDumpError(format!("it has the format {format}, and not {FORMAT}")));
        }
        if decoder.position() < bytes.len() {
            return Err(ParseDumpError(format!("it ends at byte {} already", decoder.position())));
        }
        Ok(Self { flows: flows.into_iter().map(read).collect::<Result<_, _>>()? })
    }
}

fn written(loaded: &Loaded) -> Result<DumpedFlow, Refused> {
    let records = loaded.records.iter().map(|StoredRecord { id, record }| {
        let Encoded { path, kind, body } = encoded(record)?;
        Ok(DumpedRecord { epoch: id.epoch.get(), sequence: id.sequence, path, kind, body })
    });
    let records = records.collect::<Result<_, _>>()?;
    let flow = &loaded.flow;
    Ok(DumpedFlow { uid: *flow.uid.as_bytes(), version: flow.version, run: flow.run, records })
}

fn read(DumpedFlow { uid, version, run, records }: DumpedFlow) -> Result<Loaded, ParseDumpError> {
    let uid = Uid::from_bytes(uid);
    let wrong = |reason| ParseDumpError(format!("the flow {uid}: {reason}"));
    let records = records.into_iter().map(|DumpedRecord { epoch, sequence, path, kind, body }| {
        let id = RecordId { epoch: Epoch::new(epoch), sequence };
        let encoded = Encoded { path, kind, body };
        let record = encoded.decoded(&encoded.body).map_err(wrong)?;
        Ok(StoredRecord { id, record })
    });
    let records: Vec<StoredRecord> = records.collect::<Result<_, _>>()?;
    let started = records.iter().find_map(|stored| {
        if let Event::Started(started) = &stored.record.event {
            Some(started.clone())
        } else {
            None
        }
    });
    let started = started.ok_or_else(|| wrong("it has no beginning".to_owned()))?;
    let submit = Submit::new(uid, started, FirstOwner::Any);
    let mut head = FlowHead::new(&submit, Moment::default());
    (head.version, head.run) = (version, run);
    Ok(Loaded { flow: head.info(), records, inbox: Inbox::default() })
}
