//! The protocol between sidecar and master, message by message.

use std::time::Duration;

use bytes::Bytes;
use flexor_store::codec::Request as StoreRequest;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::store_link_client::StoreLinkClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use wire::from_sidecar::Message as From;
use wire::to_sidecar::Message as To;

use crate::serving::Serving;

struct Link {
    outgoing: mpsc::Sender<wire::FromSidecar>,
    incoming: Streaming<wire::ToSidecar>,
}

impl Link {
    async fn connect(serving: &Serving, generation: u64) -> Self {
        let (outgoing, receiver) = mpsc::channel(64);
        let hello = wire::Hello { version: 1, pod: "pod-a".into(), pod_uid: "u".into(), link: 77, generation };
        outgoing.send(wire::FromSidecar { message: Some(From::Hello(hello)) }).await.unwrap();
        let mut client = StoreLinkClient::new(serving.channel().await);
        let incoming = client.link(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { outgoing, incoming }
    }

    async fn send(&self, message: From) {
        self.outgoing.send(wire::FromSidecar { message: Some(message) }).await.unwrap();
    }

    async fn open(&self) {
        let open = wire::OpenConnection { connection: 1, node: String::new(), answered: 0, clock: None };
        self.send(From::Open(open)).await;
        self.send(From::Ready(wire::Ready {})).await;
    }

    async fn operate(&self, number: u64, request: StoreRequest) {
        self.send(From::Operation(wire::Operation { connection: 1, number, request: request.to_bytes() })).await;
    }

    async fn next(&mut self, wanted: impl Fn(&To) -> bool) -> To {
        let found = async {
            loop {
                let message = self.incoming.message().await.unwrap().expect("the stream is open").message.unwrap();
                if wanted(&message) {
                    return message;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), found).await.expect("an answer in time")
    }

    async fn answer(&mut self) -> wire::Answer {
        match self.next(|message| matches!(message, To::Answer(_))).await {
            To::Answer(answer) => answer,
            other => panic!("{other:?}"),
        }
    }
}

fn add(delta: i64) -> StoreRequest {
    StoreRequest::Add { key: Bytes::from_static(b"/n"), delta }
}

#[tokio::test]
async fn an_operation_is_carried_out_once_across_a_broken_stream_and_a_new_master() {
    let folder = tempfile::tempdir().unwrap();
    let first = Serving::with(1, 1, Some(folder.path()), None).await.unwrap();
    let mut link = Link::connect(&first, 0).await;
    link.open().await;
    link.operate(1, add(5)).await;
    let answer = link.answer().await;
    assert_eq!((answer.number, &answer.reply[..]), (1, &5i64.to_le_bytes()[..]));
    assert_eq!(answer.results.len(), 1, "the answer carries the change");
    drop(link);

    let mut again = Link::connect(&first, first.generation).await;
    again.open().await;
    again.operate(1, add(5)).await;
    assert_eq!(&again.answer().await.reply[..], &5i64.to_le_bytes()[..]);
    drop((again, first));

    let second = Serving::with(1, 1, Some(folder.path()), None).await.unwrap();
    let mut again = Link::connect(&second, 1).await;
    again.open().await;
    again.operate(1, add(5)).await;
    assert_eq!(&again.answer().await.reply[..], &5i64.to_le_bytes()[..]);
    again.operate(2, add(1)).await;
    assert_eq!(&again.answer().await.reply[..], &6i64.to_le_bytes()[..]);
}

#[tokio::test]
async fn a_master_without_a_journal_takes_over_the_kept_changes_of_sidecars() {
    let serving = Serving::start(1, 1).await;
    let mut link = Link::connect(&serving, 0).await;
    let kept = wire::KeyResult { seq: 9, key: "/k".into(), value: Some("v".into()), pushed: None, popped: None };
    link.send(From::Kept(kept)).await;
    link.open().await;
    link.operate(1, StoreRequest::Get { key: Bytes::from_static(b"/k") }).await;
    let answer = link.answer().await;
    assert_eq!(&answer.reply[8..], b"v");
}

#[tokio::test]
async fn a_sidecar_that_has_seen_a_later_master_is_refused() {
    let serving = Serving::with(1, 1, Some(tempfile::tempdir().unwrap().path()), None).await.unwrap();
    let mut link = Link::connect(&serving, 99).await;
    let To::Refusal(refusal) = link.next(|_| true).await else { panic!("not refused") };
    assert_eq!(refusal.reason, "Superseded");
}

#[tokio::test]
async fn waits_wake_and_cancelled_waits_do_not() {
    let serving = Serving::start(1, 1).await;
    let mut link = Link::connect(&serving, 0).await;
    link.open().await;
    let wait = || StoreRequest::Wait { keys: vec![Bytes::from_static(b"/w")] };
    link.operate(1, wait()).await;
    link.operate(2, StoreRequest::CancelWait).await;
    let answer = link.answer().await;
    assert_eq!((answer.number, &answer.reply[..]), (2, &[1u8][..]));
    link.operate(3, wait()).await;
    link.operate(4, StoreRequest::Set { key: Bytes::from_static(b"/w"), value: Bytes::new() }).await;
    let mut numbers = vec![link.answer().await.number, link.answer().await.number];
    numbers.sort_unstable();
    assert_eq!(numbers, [3, 4]);
}
