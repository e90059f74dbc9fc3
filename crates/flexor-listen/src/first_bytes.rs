//! A stream whose first bytes have to come in time: the preface of HTTP/2, or the beginning of anything else.
//!
//! Neither hyper nor h2 limits this time. From then on header timeouts and pings watch over the connection.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The time from the connection to the end of its preface.
pub const FIRST_BYTES_WITHIN: Duration = Duration::from_secs(10);

/// What an HTTP/2 client sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) struct FirstBytes<S> {
    stream: S,
    /// The bytes of the preface that have come.
    matched: usize,
    /// None once the preface is complete, or once the client speaks something else.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> FirstBytes<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, matched: 0, deadline: Some(Box::pin(sleep(FIRST_BYTES_WITHIN))) }
    }

    fn note(&mut self, bytes: &[u8]) {
        let expected = &PREFACE[self.matched..];
        let is_preface = bytes.len() < expected.len() && expected.starts_with(bytes);
        self.matched += bytes.len().min(expected.len());
        if !is_preface {
            self.deadline = None;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FirstBytes<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let Some(deadline) = &mut self.deadline else { return polled };
        if polled.is_pending() {
            ready!(deadline.as_mut().poll(cx));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client has sent no request in time")));
        }
        self.note(&buf.filled()[before..]);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FirstBytes<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    /// How long a stream lives that sends these bytes and then nothing; none if for ever.
    async fn lifetime(sent: &[u8]) -> Option<Duration> {
        let (mut client, server) = duplex(1024);
        client.write_all(sent).await.unwrap();
        let began = Instant::now();
        let mut server = FirstBytes::new(server);
        let read = async { while server.read(&mut [0; 7]).await.is_ok() {} };
        tokio::time::timeout(Duration::from_secs(3600), read).await.ok().map(|()| began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_and_half_a_preface_time_out() {
        for sent in [&b""[..], b"P", &PREFACE[..7], &PREFACE[..PREFACE.len() - 1]] {
            let lifetime = lifetime(sent).await.expect("it times out");
            assert!(lifetime < FIRST_BYTES_WITHIN + Duration::from_millis(100), "{sent:?} lives {lifetime:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_first_bytes_the_stream_may_be_quiet() {
        for sent in [PREFACE, b"GET / HTTP/1.1", b"POST", b"PRI * HTTP/1.1"] {
            assert_eq!(lifetime(sent).await, None, "{sent:?}");
        }
        assert_eq!(lifetime(&[PREFACE, b"frames"].concat()).await, None);
    }
}
