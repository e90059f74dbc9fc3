//! The target of a call: one incarnation of one server.
//!
//! An address may belong to another server by the time a client dials it, even to one of another job with the same
//! model. Every call therefore carries the name and incarnation of its server in a header. A server rejects calls that
//! are addressed to another incarnation.

use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

const HEADER: &str = "flexor-server";

/// One incarnation of a server, as it stands in the header of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallTarget(String);

impl CallTarget {
    pub(crate) fn new(name: &str, incarnation: u64) -> Self {
        Self(format!("{incarnation} {name}"))
    }

    /// Wraps a message into a request with the header.
    pub(crate) fn call<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        // Pod names are valid header values. Any other name matches no server, so its calls are rejected.
        if let Ok(value) = self.0.parse() {
            request.metadata_mut().insert(HEADER, value);
        }
        request
    }

    /// Rejects a call that is addressed to another incarnation.
    pub(crate) fn check(&self, metadata: &MetadataMap) -> Result<(), Status> {
        match metadata.get(HEADER).map(tonic::metadata::MetadataValue::as_bytes) {
            Some(name) if name == self.0.as_bytes() => Ok(()),
            Some(_) | None => Err(Status::unavailable(
                "the call is addressed to another incarnation or server that used this address before",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_for_another_incarnation_is_rejected() {
        let (one, other) = (CallTarget::new("ps-0", 1), CallTarget::new("ps-0", 2));
        let call = one.call(());
        assert!(one.check(call.metadata()).is_ok());
        assert!(other.check(call.metadata()).is_err());
        assert!(one.check(Request::new(()).metadata()).is_err());
    }
}
