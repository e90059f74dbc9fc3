//! `criticalNodes`: `all`, `none`, or pairs of rank and relaunches such as `0:3,1:2`.

use std::collections::BTreeMap;

use flexor_model::{CriticalNodes, Rank, Reason};

use crate::Finding;

pub(super) fn read(text: Option<&str>, field: &str) -> Result<CriticalNodes, Finding> {
    match text {
        None | Some("") => Ok(CriticalNodes::Usual),
        Some("all") => Ok(CriticalNodes::All),
        Some("none") => Ok(CriticalNodes::None),
        Some(pairs) => {
            let pair = |pair: &str| {
                let (rank, relaunches) = pair.split_once(':')?;
                Some((Rank(rank.parse().ok()?), relaunches.parse().ok()?))
            };
            let ranks: Option<Vec<(Rank, u32)>> = pairs.split(',').map(pair).collect();
            let invalid = |message| Finding::new(Reason::InvalidValue, field, message).help("write such as 0:3,1:2");
            let ranks = ranks.ok_or_else(|| invalid("is not all, none or pairs of rank and relaunches"))?;
            let distinct: BTreeMap<Rank, u32> = ranks.iter().copied().collect();
            if distinct.len() < ranks.len() {
                return Err(invalid("names a rank twice"));
            }
            Ok(CriticalNodes::Ranks(distinct))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_read_with_their_relaunches() {
        assert_eq!(read(Some("0:3,2:1"), "f"), Ok(CriticalNodes::Ranks([(Rank(0), 3), (Rank(2), 1)].into())));
        assert_eq!(read(Some("all"), "f"), Ok(CriticalNodes::All));
        assert_eq!(read(None, "f"), Ok(CriticalNodes::Usual));
        assert!(read(Some("0:99999999999"), "f").is_err());
        assert!(read(Some("0:1,0:2"), "f").is_err());
    }
}
