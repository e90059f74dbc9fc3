//! An address as torchrun writes it.

use std::fmt;

use super::given::Wrong;
use crate::finding::quoted;

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A name or an address; IPv6 without brackets.
    pub host: String,
    /// The port; 0 is one that is free.
    pub port: u16,
}

impl Address {
    /// `HOST`, `HOST:PORT`, `[IPV6]:PORT`; nothing at all is this machine. Without a usual port one must be written.
    pub(super) fn read(text: &str, usual_port: Option<u16>) -> Result<Self, Wrong> {
        let text = text.trim();
        let bracketed = text.starts_with('[') && text.ends_with(']');
        let (host, port) = match text.rsplit_once(':').filter(|_| !bracketed) {
            Some((host, port)) => (host, Some(port)),
            None => (if text.is_empty() { "localhost" } else { text }, None),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let help = "write HOST:PORT, such as node0.example.com:29400";
        let digits = |port: &&str| (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = match port {
            Some(port) => Some(port).filter(digits).and_then(|port| port.parse().ok()),
            None => usual_port,
        };
        let port = port.ok_or_else(|| Wrong::new(format!("{} has no usable port", quoted(text)), help))?;
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
        if host.is_empty() || !host.chars().all(plain) {
            return Err(Wrong::new(format!("{} is no address", quoted(text)), help));
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
