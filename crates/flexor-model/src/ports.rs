//! Default ports of Flexor's own servers. Options of each server change them.

/// gRPC and `/api` of a job's master.
pub const MASTER: u16 = 50001;
/// The TCPStore at which stock torchrun meets.
pub const STORE: u16 = 29400;
/// `/live`, `/ready` and `/metrics` of every server.
pub const HTTP: u16 = 8080;
/// A parameter server.
pub const PARAMETER_SERVER: u16 = 2222;
