//! A position of the data as one line of text, which a program stores in its own checkpoint.
//!
//! The format is `v1.` and URL-safe base64 of a checksum and JSON. The content is private to Flexor; a damaged token is
//! refused. The counts of skipped records are part of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use flexor_engine::Cause;
use flexor_engine::ledger::{DatasetPosition, Position};
use flexor_model::Reason;
use serde::{Deserialize, Serialize};

use super::skipped_records::SkippedRecords;

const VERSION: &str = "v1.";
const MAX_TOKEN_BYTES: usize = 8 << 20;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PositionToken {
    datasets: BTreeMap<Arc<str>, DatasetPosition>,
    #[serde(default, skip_serializing_if = "SkippedRecords::is_empty")]
    skipped_records: SkippedRecords,
}

pub(super) fn encode(position: Position, skipped_records: SkippedRecords) -> String {
    let token = PositionToken { datasets: position.datasets, skipped_records };
    let json = serde_json::to_vec(&token).expect("a position is plain data with string keys");
    let mut bytes = crc32fast::hash(&json).to_le_bytes().to_vec();
    bytes.extend(json);
    format!("{VERSION}{}", BASE64.encode(bytes))
}

pub(super) fn decode(token: &str) -> Result<(Position, SkippedRecords), Cause> {
    let bad = |detail: &str| Cause::new(Reason::InvalidPosition, detail);
    if token.len() > MAX_TOKEN_BYTES {
        return Err(bad("the position is too long"));
    }
    let text = token.trim().strip_prefix(VERSION).ok_or_else(|| bad("the position does not begin with v1."))?;
    let bytes = BASE64.decode(text).map_err(|_| bad("the position is damaged: it is not base64"))?;
    let (sum, json) = bytes.split_first_chunk::<4>().ok_or_else(|| bad("the position is truncated"))?;
    if u32::from_le_bytes(*sum) != crc32fast::hash(json) {
        return Err(bad("the position is damaged: its checksum is wrong"));
    }
    let PositionToken { datasets, skipped_records } =
        serde_json::from_slice(json).map_err(|_| bad("the position comes from another version of flexor"))?;
    Ok((Position { datasets }, skipped_records))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_decodes_and_a_damaged_one_does_not() {
        let token = encode(Position::default(), SkippedRecords::default());
        assert_eq!(decode(&token), Ok((Position::default(), SkippedRecords::default())));
        for at in 0..token.len() {
            let mut damaged = token.clone().into_bytes();
            damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
            let damaged = String::from_utf8(damaged).unwrap();
            assert_eq!(decode(&damaged).unwrap_err().reason, Reason::InvalidPosition, "{damaged}");
        }
        assert!(decode("").is_err());
    }
}
