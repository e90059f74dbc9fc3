//! The API server's own account of the operator's requests.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// How often each request was made: `create pods`, `patch elasticjobs/status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RequestCounts(BTreeMap<String, u32>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    stage: String,
    verb: String,
    object_ref: Option<ObjectRef>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
}

impl RequestCounts {
    /// Everything that the log has so far. Only the operator is audited: no other program here is a service account.
    pub(super) fn read(log: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut counts = BTreeMap::new();
        // The last line may be half written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for line in whole.lines() {
            let entry: Entry = serde_json::from_str(line).with_context(|| format!("no audit entry: {line}"))?;
            // A watch is answered when it begins; all other requests have one entry.
            let is_counted = if entry.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
            if entry.stage == is_counted {
                *counts.entry(entry.name()).or_default() += 1;
            }
        }
        Ok(Self(counts))
    }

    /// What has been added since an earlier reading.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let added = |(name, count): (&String, &u32)| {
            let count = count - earlier.0.get(name).copied().unwrap_or_default();
            (count > 0).then(|| (name.clone(), count))
        };
        Self(self.0.iter().filter_map(added).collect())
    }

    /// How many of the requests are so.
    pub(super) fn count(&self, is_so: impl Fn(&str) -> bool) -> u32 {
        self.0.iter().filter(|(name, _)| is_so(name)).map(|(_, count)| count).sum()
    }

    /// Every request with its count.
    pub(super) fn describe(&self) -> String {
        self.0.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    }
}

impl Entry {
    fn name(&self) -> String {
        match &self.object_ref {
            Some(object) if object.subresource.is_empty() => format!("{} {}", self.verb, object.resource),
            Some(object) => format!("{} {}/{}", self.verb, object.resource, object.subresource),
            None => self.verb.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"stage":"ResponseStarted","verb":"watch","objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"watch","objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"create","objectRef":{"resource":"pods","namespace":"a"}}
{"stage":"ResponseComplete","verb":"patch","objectRef":{"resource":"elasticjobs","subresource":"status"}}
{"stage":"ResponseComplete","verb":"patch","objectRef":{"resource":"elasticjobs","subresource":"status"}}
{"stage":"ResponseComplete","verb":"get"}
{"stage":"ResponseCom"#;

    #[test]
    fn a_request_counts_once_and_a_half_written_line_not_at_all() {
        let counts = RequestCounts::parse(LOG).unwrap();
        assert_eq!(counts.describe(), "create pods 1, get 1, patch elasticjobs/status 2, watch pods 1");
        assert_eq!(counts.count(|name| name.ends_with("/status")), 2);
    }

    #[test]
    fn what_was_there_before_is_left_out() {
        let before = RequestCounts::parse(LOG).unwrap();
        let more = format!("{}\n", LOG.lines().nth(2).unwrap());
        let after = RequestCounts::parse(&format!("{}{more}", LOG.split_at(LOG.rfind('\n').unwrap() + 1).0)).unwrap();
        assert_eq!(after.since(&before).describe(), "create pods 1");
    }
}
