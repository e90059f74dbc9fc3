//! Whom a call is for. An address may be another server's by the time somebody calls it: one of another job, even, whose
//! model is the same. So every call names the server and its life, and anybody else refuses it.

use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

const HEADER: &str = "flexor-server";

/// One life of a server, as calls name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addressee(String);

impl Addressee {
    pub(crate) fn new(name: &str, incarnation: u64) -> Self {
        Self(format!("{incarnation} {name}"))
    }

    /// Puts it on a call.
    pub(crate) fn call<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        // Names of pods can be sent; one that cannot is nobody's.
        if let Ok(value) = self.0.parse() {
            request.metadata_mut().insert(HEADER, value);
        }
        request
    }

    /// Refuses a call that is for somebody else.
    pub(crate) fn check(&self, metadata: &MetadataMap) -> Result<(), Status> {
        match metadata.get(HEADER).map(tonic::metadata::MetadataValue::as_bytes) {
            Some(name) if name == self.0.as_bytes() => Ok(()),
            Some(_) | None => Err(Status::unavailable("the call is for another server, which was here before")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_for_another_life_is_refused() {
        let (one, other) = (Addressee::new("ps-0", 1), Addressee::new("ps-0", 2));
        let call = one.call(());
        assert!(one.check(call.metadata()).is_ok());
        assert!(other.check(call.metadata()).is_err());
        assert!(one.check(Request::new(()).metadata()).is_err());
    }
}
