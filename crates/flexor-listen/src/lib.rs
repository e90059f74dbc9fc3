//! The accept loop of every port, and the HTTP connections of the ports that speak HTTP.
//!
//! Any user of the machine can connect to a port of loopback, and any pod to a port of the cluster. A connection that
//! sends nothing, half a preface, half a header or half a body is closed within [`FIRST_BYTES_WITHIN`],
//! [`HEADER_WITHIN`] or [`BODY_STALL`]. A process that runs out of file descriptors rests and keeps some of them for its
//! probes ([`Purpose`]). Streams and long polls may be quiet for as long as they like.
//!
//! What is served, and to which clients, is the business of the crates above.

mod accept;
mod first_bytes;
mod http_server;
mod request_body;
mod tcp;

pub use self::{
    accept::{Listen, Purpose, accept},
    first_bytes::FIRST_BYTES_WITHIN,
    http_server::{HEADER_WITHIN, HttpServer},
    request_body::BODY_STALL,
    tcp::prepare,
};
