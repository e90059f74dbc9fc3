//! Protocol buffers of Flexor's own services, and of those it stands in for; no sockets.
//!
//! The files under `proto/` are the documentation of the wire; this crate is what is generated from them.

mod compact_codec;
mod token;

pub use compact_codec::CompactCodec;
pub use token::{Token, TokenError};

/// What ElasticDL's workers ask of its parameter servers.
#[expect(clippy::allow_attributes, reason = "generated code allows what it needs")]
pub mod elasticdl {
    tonic::include_proto!("proto");
}

/// What a master writes into its journal.
pub mod journal {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("flexor.journal.v1");
    }
}

/// What a laptop cluster answers to the verbs of another terminal.
pub mod local {
    /// Version 1.
    #[expect(clippy::allow_attributes, reason = "generated code allows what it needs")]
    pub mod v1 {
        tonic::include_proto!("flexor.local.v1");
    }
}

/// The services of a job's master.
pub mod master {
    /// Version 1.
    #[expect(clippy::allow_attributes, reason = "generated code allows what it needs")]
    pub mod v1 {
        tonic::include_proto!("flexor.master.v1");
    }
}

/// What parameter servers answer.
pub mod ps {
    /// Version 1.
    #[expect(clippy::allow_attributes, reason = "generated code allows what it needs")]
    pub mod v1 {
        tonic::include_proto!("flexor.ps.v1");
    }
}
