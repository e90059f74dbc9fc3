//! Ranks as runs of consecutive numbers, `[first, count]`: what is stored of a set that may have thousands.

use std::collections::BTreeSet;

use flexor_model::Rank;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// More ranks than this are refused: a damaged count must not fill the memory.
const MOST_RANKS: u64 = 1 << 20;

pub(super) fn serialize<S: Serializer>(ranks: &BTreeSet<Rank>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == rank.0 => *count += 1,
            _ => runs.push((rank.0, 1)),
        }
    }
    runs.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<Rank>, D::Error> {
    let runs = Vec::<(u32, u32)>::deserialize(deserializer)?;
    if runs.iter().map(|(_, count)| u64::from(*count)).sum::<u64>() > MOST_RANKS {
        return Err(D::Error::custom("too many ranks"));
    }
    let ranks = |(first, count): (u32, u32)| (first..first.saturating_add(count)).map(Rank);
    Ok(runs.into_iter().flat_map(ranks).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Ranks(#[serde(with = "super")] BTreeSet<Rank>);

    #[test]
    fn runs_are_lossless_and_bounded() {
        let ranks = Ranks([0, 1, 2, 7, 9, 10].map(Rank).into());
        let json = serde_json::to_string(&ranks).unwrap();
        assert_eq!(json, "[[0,3],[7,1],[9,2]]");
        assert_eq!(serde_json::from_str::<Ranks>(&json).unwrap(), ranks);
        assert!(serde_json::from_str::<Ranks>("[[0,4294967295]]").is_err());
    }
}
