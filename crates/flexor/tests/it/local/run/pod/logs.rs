//! Tests the logs of containers.

use std::fs;

use super::pod;

#[test]
fn both_streams_are_in_one_log_in_the_order_in_which_they_were_written() {
    let script = "for n in $(seq 300); do echo out $n; echo err $n >&2; done";
    let mut pod = pod().main("main", script).start();
    pod.wait();
    let expected: String = (1..=300).map(|n| format!("out {n}\nerr {n}\n")).collect();
    assert_eq!(pod.log("main"), expected);
}

#[test]
fn the_log_of_a_container_is_complete_when_its_end_is_reported() {
    let big = "seq 20000; printf 'no newline'; exit 1";
    let mut pod = pod().init("init", "echo from init").main("one", "echo from one").main("two", big).start();
    pod.wait();
    assert_eq!((pod.log("init"), pod.log("one")), ("from init\n".to_owned(), "from one\n".to_owned()));
    let expected: String = (1..=20000).map(|n| format!("{n}\n")).collect::<String>() + "no newline";
    assert_eq!(pod.log("two"), expected);
}

#[test]
fn a_full_log_is_put_aside_and_the_oldest_goes() {
    // 16 bytes a line, 36 MiB: the limit is 10 MiB, and two older files are kept.
    let (line, count) = ("abcdefghijklmno\n", 36 << 16);
    let mut pod = pod().main("main", &format!("yes abcdefghijklmno | head -n {count}")).start();
    pod.wait();
    let log = pod.folder().log("main");
    let mut total = 0;
    for name in ["main.log", "main.log.1", "main.log.2"] {
        let text = fs::read_to_string(log.with_file_name(name)).unwrap();
        assert!(text.len() <= 10 << 20, "{name} has {} bytes", text.len());
        assert!(text.split_inclusive('\n').all(|one| one == line), "{name} has whole lines only");
        total += text.len();
    }
    assert!(!log.with_file_name("main.log.3").exists());
    assert_eq!(total, 26 << 20, "what was written last is there");
}
