//! A position of the data as a line of text, for a program's own checkpoint.
//!
//! `v1.` and the position as JSON, with a checksum before it, in URL-safe base64. What is inside is nobody's business but
//! ours; a token that was damaged is refused. How many records were left out until then goes with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use flexor_engine::Cause;
use flexor_engine::shards::{DatasetPosition, Position};
use flexor_model::Reason;
use serde::{Deserialize, Serialize};

use super::left_out::LeftOut;

const VERSION: &str = "v1.";
/// The longest token that is read.
const MAX: usize = 8 << 20;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    datasets: BTreeMap<Arc<str>, DatasetPosition>,
    #[serde(default, skip_serializing_if = "LeftOut::is_empty")]
    left_out: LeftOut,
}

pub(super) fn encode(position: Position, left_out: LeftOut) -> String {
    let written = Written { datasets: position.datasets, left_out };
    let json = serde_json::to_vec(&written).expect("a position is plain data with text for keys");
    let mut bytes = crc32fast::hash(&json).to_le_bytes().to_vec();
    bytes.extend(json);
    format!("{VERSION}{}", BASE64.encode(bytes))
}

pub(super) fn decode(token: &str) -> Result<(Position, LeftOut), Cause> {
    let bad = |detail: &str| Cause::new(Reason::InvalidPosition, detail);
    if token.len() > MAX {
        return Err(bad("the position is too long"));
    }
    let text = token.trim().strip_prefix(VERSION).ok_or_else(|| bad("the position does not begin with v1."))?;
    let bytes = BASE64.decode(text).map_err(|_| bad("the position is damaged: it is not base64"))?;
    let (sum, json) = bytes.split_first_chunk::<4>().ok_or_else(|| bad("the position is cut off"))?;
    if u32::from_le_bytes(*sum) != crc32fast::hash(json) {
        return Err(bad("the position is damaged: its checksum does not fit"));
    }
    let Written { datasets, left_out } =
        serde_json::from_slice(json).map_err(|_| bad("the position is of another version of flexor"))?;
    Ok((Position { datasets }, left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_and_a_damaged_one_does_not() {
        let token = encode(Position::default(), LeftOut::default());
        assert_eq!(decode(&token), Ok((Position::default(), LeftOut::default())));
        for at in 0..token.len() {
            let mut damaged = token.clone().into_bytes();
            damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
            let damaged = String::from_utf8(damaged).unwrap();
            assert_eq!(decode(&damaged).unwrap_err().reason, Reason::InvalidPosition, "{damaged}");
        }
        assert!(decode("").is_err());
    }
}
