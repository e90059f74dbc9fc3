//! The body of a request, which may not stall in the middle.
//!
//! A plain body is expected to its end. A gRPC body is a sequence of messages, each with its length in front: a
//! message that has begun is expected to its end. Before it and between messages a stream may be quiet.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a body that is incomplete may bring nothing.
pub const BODY_STALL: Duration = Duration::from_secs(20);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
#[error("the body of the request is incomplete, and nothing came for {BODY_STALL:?}")]
struct Stalled;

/// A request body with a deadline for each of its frames.
pub(crate) struct RequestBody<B = Incoming> {
    body: B,
    messages: Option<Messages>,
    /// Armed while a frame is waited for that has to come.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<B> RequestBody<B> {
    pub(crate) fn of(request: Request<B>) -> Request<Self> {
        let messages = is_grpc(request.headers()).then(Messages::default);
        request.map(|body| Self { body, messages, deadline: None })
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

impl<B: Body<Data = Bytes> + Unpin> Body for RequestBody<B>
where
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.deadline = None;
            if let (Some(Ok(frame)), Some(messages)) = (&frame, &mut self.messages)
                && let Some(data) = frame.data_ref()
            {
                messages.note(data);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        if self.messages.as_ref().is_some_and(Messages::is_between) {
            return Poll::Pending;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + BODY_STALL)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Some(Err(Stalled.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Where a gRPC body stands: in the prefix of a message (a flag and four bytes of length), in a message, or between two.
#[derive(Debug, Default)]
struct Messages {
    /// The bytes of the prefix that have come.
    prefix: usize,
    length: u32,
    /// The bytes of the message that are to come, once its prefix is complete.
    missing: usize,
}

const PREFIX: usize = 5;

impl Messages {
    fn is_between(&self) -> bool {
        self.prefix == 0
    }

    fn note(&mut self, mut data: &[u8]) {
        while let Some((&byte, rest)) = data.split_first() {
            if self.prefix < PREFIX {
                // The flag shifts out of the four bytes of the length.
                self.length = (self.length << 8) | u32::from(byte);
                self.prefix += 1;
                data = rest;
                if self.prefix == PREFIX {
                    self.missing = usize::try_from(self.length).unwrap_or(usize::MAX);
                }
            } else {
                let taken = self.missing.min(data.len());
                self.missing -= taken;
                data = &data[taken..];
            }
            if self.prefix == PREFIX && self.missing == 0 {
                *self = Self::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use super::*;

    /// A body that brings these frames and then nothing.
    struct Quiet(VecDeque<&'static [u8]>);

    impl Body for Quiet {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.0.pop_front() {
                Some(bytes) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(bytes))))),
                None => Poll::Pending,
            }
        }
    }

    async fn stalls(kind: &str, frames: &[&'static [u8]]) -> bool {
        let quiet = Quiet(frames.iter().copied().collect());
        let request = Request::builder().header(CONTENT_TYPE, kind).body(quiet).unwrap();
        let mut body = RequestBody::of(request).into_body();
        let read = std::future::poll_fn(move |cx| {
            loop {
                match ready!(Pin::new(&mut body).poll_frame(cx)) {
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Poll::Ready(()),
                }
            }
        });
        tokio::time::timeout(Duration::from_secs(3600), read).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_plain_body_is_expected_to_its_end() {
        assert!(stalls("application/json", &[]).await);
        assert!(stalls("application/json", &[b"{"]).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_grpc_message_that_has_begun_is_expected() {
        let grpc = "application/grpc+proto";
        for frames in [
            &[&b"\0"[..]][..],
            &[b"\0\0\0\0"],
            &[b"\0\0\0\0\x02", b"a"],
            &[b"\0\0\0\0\x01a\0\0"],
            &[b"\0\0\0\0\0", b"\0\0\0\x01\0", &[0; 255]],
        ] {
            assert!(stalls(grpc, frames).await, "{frames:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_may_be_quiet_between_messages() {
        let grpc = "application/grpc";
        for frames in [
            &[][..],
            &[&b"\0\0\0\0\0"[..]],
            &[b"\0\0\0\0\x02ab"],
            &[b"\0\0", b"\0\0\x02a", b"b\0\0\0\0\x01", b"c"],
            &[b"\0\0\0\x01\0", &[0; 200], &[0; 56]],
        ] {
            assert!(!stalls(grpc, frames).await, "{frames:?}");
        }
    }
}
