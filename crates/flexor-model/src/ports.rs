//! Ports of Flexor's own servers. All can be changed where they are started; these are what they are without that.

/// gRPC and `/api` of a job's master.
pub const MASTER: u16 = 50001;
/// The TCPStore that stock torchrun meets at.
pub const STORE: u16 = 29400;
/// `/live`, `/ready` and `/metrics` of every server.
pub const HTTP: u16 = 8080;
/// A parameter server.
pub const PARAMETER_SERVER: u16 = 2222;
