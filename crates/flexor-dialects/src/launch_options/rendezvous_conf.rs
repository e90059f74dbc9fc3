//! The settings inside `--rdzv-conf`: a few have a meaning here, others are known and have none, the rest is named.

use std::time::Duration;

use flexor_model::Reason;

use super::{
    given::{Given, Value, Wrong},
    python_number, table,
};
use crate::{Finding, finding::quoted, suggest::closest};

/// What `--rdzv-conf` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RendezvousConf {
    /// How long a node waits for a world (`join_timeout`).
    pub join_timeout: Option<Duration>,
    /// How long a first world waits for more nodes than it needs (`last_call_timeout`; dlrover-run's
    /// `lastcall_timeout`).
    pub last_call: Option<Duration>,
    /// Whether this node serves the rendezvous (`is_host`); where it is not said it does not, whatever address it has.
    pub is_host: Option<bool>,
    /// How long processes that outlive a change of the world have to leave it (`change_timeout`; ours alone).
    pub change_timeout: Option<Duration>,
}

const MEANT: [&str; 5] = ["join_timeout", "last_call_timeout", "lastcall_timeout", "is_host", "change_timeout"];

/// Settings of torchrun's and dlrover-run's own machinery.
const WITHOUT_EFFECT: [(&str, &str); 10] = [
    ("close_timeout", "a run is closed by one message"),
    ("heartbeat_timeout", "the master notices a lost node by itself"),
    ("keep_alive_interval", "the master notices a lost node by itself"),
    ("keep_alive_max_attempt", "the master notices a lost node by itself"),
    ("read_timeout", "a master that does not answer is asked again until it does"),
    ("cas_backoff_max_seconds", "nodes do not compete to write"),
    ("timeout", "write join_timeout"),
    ("pend_timeout", "a node waits for a world as long as join_timeout says"),
    ("rank", "write --node-rank"),
    ("node_unit", "write --node-unit"),
];

impl RendezvousConf {
    /// What was given about it; none where something is wrong.
    pub(super) fn read(given: &mut Given<'_>) -> Option<Self> {
        let Value { text, field, .. } = given.value(&table::RDZV_CONF);
        let mut conf = Self::default();
        for setting in text.split(',').filter(|_| !text.trim().is_empty()) {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            let read = conf.set(key.trim(), value.trim(), &field, &mut given.findings);
            given.judge(&field, read)?;
        }
        Some(conf)
    }

    fn set(&mut self, key: &str, value: &str, field: &str, findings: &mut Vec<Finding>) -> Result<(), Wrong> {
        if key.is_empty() || value.is_empty() {
            let message = if key.is_empty() {
                "a setting has no name".to_owned()
            } else {
                format!("{} has no value", quoted(key))
            };
            return Err(Wrong::new(message, "write KEY=VALUE[,KEY=VALUE…]"));
        }
        match key {
            "join_timeout" => self.join_timeout = Some(seconds(key, value)?),
            "last_call_timeout" | "lastcall_timeout" => self.last_call = Some(seconds(key, value)?),
            "change_timeout" => self.change_timeout = Some(seconds(key, value)?),
            "is_host" => self.is_host = Some(truth(key, value)?),
            "store_type" if value.eq_ignore_ascii_case("tcp") => {}
            "store_type" => {
                let message = format!("store_type {} is not possible: nodes meet over the network", quoted(value));
                return Err(Wrong::new(message, "leave it out"));
            }
            _ => findings.push(without_effect(key, field)),
        }
        Ok(())
    }
}

fn without_effect(key: &str, field: &str) -> Finding {
    let finding = Finding::new(Reason::FieldUnused, field, format!("the setting {} has no effect", quoted(key)));
    if let Some((_, why)) = WITHOUT_EFFECT.iter().find(|(name, _)| *name == key) {
        return finding.help(*why);
    }
    match closest(key, MEANT) {
        Some(meant) => finding.help(format!("did you mean `{meant}`?")),
        None => finding.help("no rendezvous of ours has such a setting"),
    }
}

fn seconds(key: &str, value: &str) -> Result<Duration, Wrong> {
    let number = python_number::integer(value).and_then(|number| u64::try_from(number).ok()).filter(|n| *n > 0);
    number.map(Duration::from_secs).ok_or_else(|| {
        Wrong::new(format!("{key} {} is no time in seconds", quoted(value)), format!("write such as {key}=600"))
    })
}

fn truth(key: &str, value: &str) -> Result<bool, Wrong> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" => Ok(true),
        "0" | "false" | "f" | "no" | "n" => Ok(false),
        _ => {
            Err(Wrong::new(format!("{key} {} is neither true nor false", quoted(value)), format!("write {key}=false")))
        }
    }
}
