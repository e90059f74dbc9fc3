//! Protocol buffers of Flexor's own services; no sockets.
//!
//! The files under `proto/` are the documentation of the wire; this crate is what is generated from them.

mod compact_codec;

pub use compact_codec::CompactCodec;

/// What a master writes into its journal.
pub mod journal {
    /// Version 1.
    #[expect(missing_docs, reason = "generated; the meaning stands in the .proto file")]
    pub mod v1 {
        tonic::include_proto!("flexor.journal.v1");
    }
}

/// What a laptop cluster answers to the verbs of another terminal.
pub mod local {
    /// Version 1.
    #[expect(missing_docs, reason = "generated; the meaning stands in the .proto file")]
    #[expect(clippy::allow_attributes, reason = "generated code allows what it needs")]
    pub mod v1 {
        tonic::include_proto!("flexor.local.v1");
    }
}

/// The services of a job's master.
pub mod master {
    /// Version 1.
    #[expect(missing_docs, reason = "generated; the meaning stands in the .proto file")]
    #[expect(clippy::allow_attributes, reason = "generated code allows what it needs")]
    pub mod v1 {
        tonic::include_proto!("flexor.master.v1");
    }
}
