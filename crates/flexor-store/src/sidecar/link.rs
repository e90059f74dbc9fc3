//! The stream to the master: how it is opened, and why it is not there.
//!
//! Messages on the stream are the [relay's](super::Relay) business; [`super::run`] decides when to connect again.

use std::time::Duration;

use flexor_client::{ConnectError, Upstream};
use flexor_wire::master::v1::{FromSidecar, ToSidecar, store_link_client::StoreLinkClient};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, Streaming};

use super::relay::LinkFault;
use crate::codec::MAX_REQUEST;

/// Longest message on the link, for both sides to allow: an answer carries its reply and again the values in it.
pub const MAX_LINK_MESSAGE: usize = 4 * MAX_REQUEST;

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the master has ended the link: {}: {}", .0.code(), .0.message())]
    Broken(Box<Status>),
    #[error("the master has ended the link")]
    Ended,
    #[error("the master has not said Welcome within {0:?}")]
    NoWelcome(Duration),
    #[error(transparent)]
    Fault(#[from] LinkFault),
}

/// Opens a stream that sends what comes out of `messages`.
pub(super) async fn open_link(
    master: &Upstream,
    messages: UnboundedReceiver<FromSidecar>,
) -> Result<Streaming<ToSidecar>, LinkError> {
    let (channel, request) = master.connect(UnboundedReceiverStream::new(messages)).await?;
    let mut client = StoreLinkClient::new(channel)
        .max_decoding_message_size(MAX_LINK_MESSAGE)
        .max_encoding_message_size(MAX_LINK_MESSAGE);
    let answer = client.link(request).await.map_err(|status| LinkError::Broken(Box::new(status)))?;
    Ok(answer.into_inner())
}
