//! Malicious and expensive pickles: each is refused with a message that says what it tried.

use super::super::opcode::*;
use super::super::value::TORCH_MODULE;
use super::*;

/// A pickle by hand: protocol 4, then the pieces.
fn pickle(pieces: &[&[u8]]) -> Vec<u8> {
    [&[PROTO, 4][..], &pieces.concat()].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&[SHORT_BINUNICODE, text.len() as u8], text.as_bytes()].concat()
}

fn class(module: &str, name: &str) -> Vec<u8> {
    [text(module), text(name), vec![STACK_GLOBAL]].concat()
}

fn node(attributes: &[u8]) -> Vec<u8> {
    [&class(TORCH_MODULE, "_NodeDesc"), &[EMPTY_TUPLE, NEWOBJ, EMPTY_DICT, MARK][..], attributes, &[SETITEMS, BUILD]]
        .concat()
}

fn plain_node() -> Vec<u8> {
    node(&[text("addr"), text("a"), text("pid"), vec![BININT1, 1], text("local_id"), vec![BININT1, 0]].concat())
}

/// A state with these attributes, the others as in a state without nodes.
fn state(given: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let usual = attributes();
    let others = usual.iter().filter(|(name, _)| given.iter().all(|(other, _)| other != name));
    state_of(given.iter().chain(others))
}

/// A state without nodes that lacks one attribute.
fn state_without(attribute: &str) -> Vec<u8> {
    state_of(attributes().iter().filter(|(name, _)| *name != attribute))
}

fn attributes() -> [(&'static str, Vec<u8>); 8] {
    [
        ("round", vec![BININT1, 0]),
        ("complete", vec![NEWFALSE]),
        ("deadline", vec![NONE]),
        ("closed", vec![NEWFALSE]),
        ("participants", vec![EMPTY_DICT]),
        ("wait_list", vec![EMPTY_SET]),
        ("redundancy_list", vec![EMPTY_SET]),
        ("last_heartbeats", vec![EMPTY_DICT]),
    ]
}

fn state_of<'a>(attributes: impl Iterator<Item = &'a (&'a str, Vec<u8>)>) -> Vec<u8> {
    let mut pieces = vec![class(TORCH_MODULE, "_RendezvousState"), vec![EMPTY_TUPLE, NEWOBJ, EMPTY_DICT, MARK]];
    for (name, value) in attributes {
        pieces.extend([text(name), value.clone()]);
    }
    pieces.push(vec![SETITEMS, BUILD, STOP]);
    pickle(&[&pieces.concat()])
}

/// The message with which a pickle is refused.
#[track_caller]
fn refusal(pickle: &[u8]) -> String {
    decode_pickle(pickle).expect_err("this pickle must be refused").to_string()
}

#[track_caller]
fn assert_refused(pickle: &[u8], part: &str) {
    let text = refusal(pickle);
    assert!(text.contains(part), "{text}");
}

#[test]
fn the_hand_made_state_is_accepted_when_nothing_is_wrong_with_it() {
    assert_eq!(decode_pickle(&state(&[])), Ok(RendezvousState::default()));
}

#[test]
fn a_function_is_refused_by_its_name() {
    let call = |module: &str, name: &str| pickle(&[&class(module, name), &text("id"), &[TUPLE1, REDUCE, STOP]]);
    for (module, name) in [("os", "system"), ("builtins", "eval"), ("posix", "system"), ("datetime", "date")] {
        assert_refused(&call(module, name), &format!("the pickle names {module}.{name} at byte"));
    }
    assert_refused(&pickle(&[b"cos\nsystem\n(S'id'\ntR."]), "the pickle names os.system at byte 2");
    assert_refused(&call(TORCH_MODULE, "_RendezvousState.__init__"), "_RendezvousState.__init__");
    assert_refused(&call("a\n\x1b[2J", &"x".repeat(200)), r"the pickle names a\n\u{1b}[2J.xxx");
    assert!(refusal(&call("os", &"x".repeat(200))).len() < 300);
}

#[test]
fn a_name_from_the_memo_is_refused_too() {
    // "os" and "system" are first a valid attribute name and value.
    let hidden = [text("os"), vec![MEMOIZE], text("system"), vec![MEMOIZE, BINGET, 0, BINGET, 1, STACK_GLOBAL]];
    assert_refused(&pickle(&[&hidden.concat()]), "os.system");
    // An allowed class in place of a name.
    let class_as_name = [text("datetime"), class("datetime", "datetime"), vec![STACK_GLOBAL]].concat();
    assert_refused(&pickle(&[&class_as_name]), "takes a module and a name, not a str and a class");
    assert_refused(&pickle(&[&[BINGET, 3]]), "BINGET at byte 2 takes the number of a value in the memo, not 3");
}

#[test]
fn instructions_that_no_pickler_writes_here_are_refused_by_name() {
    let cases: [(&[u8], &str); 16] = [
        (&[0x82, 1], "EXT1"),
        (&[0x83, 1, 0], "EXT2"),
        (&[0x84, 1, 0, 0, 0], "EXT4"),
        (b"Pid\n", "PERSID"),
        (b"Q", "BINPERSID"),
        (b"ios\nsystem\n", "INST"),
        (b"o", "OBJ"),
        (&[0x92], "NEWOBJ_EX"),
        (b"0", "POP"),
        (b"q\0", "BINPUT"),
        (&[0x8b, 0xff, 0xff, 0xff, 0x7f], "LONG4"),
        (b"B\xff\xff\xff\xff", "BINBYTES"),
        (&[0x8e, 255, 255, 255, 255, 255, 255, 255, 127], "BINBYTES8"),
        (&[0x97], "NEXT_BUFFER"),
        (&[PROTO, 4], "PROTO"),
        (&[0xff], "0xff"),
    ];
    for (instruction, name) in cases {
        assert_refused(&pickle(&[instruction]), &format!("opcode {name} at byte 2 does not occur"));
    }
}

#[test]
fn other_protocols_and_other_text_are_refused() {
    for begin in [&b""[..], b"\x80", b"\x80\x03", b"\x80\x06N.", b"cos\nsystem\n", b"N."] {
        assert_refused(begin, "not a pickle of protocol 4 or 5");
    }
    assert!(decode(b"not base64!").unwrap_err().to_string().contains("not base64"));
    let too_long = decode(&vec![b'A'; MAX_VALUE + 4]).unwrap_err();
    assert_eq!(too_long, StateError::TooLong { length: MAX_VALUE + 4 });
}

#[test]
fn excessive_lengths_are_refused() {
    assert_refused(&pickle(&[&[BINUNICODE, 255, 255, 255, 255]]), "would hold more than 1024 bytes of text");
    assert_refused(&pickle(&[&[SHORT_BINUNICODE, 200, b'a']]), "ends in the middle, in SHORT_BINUNICODE at byte 2");
    assert_refused(&pickle(&[&[SHORT_BINBYTES, 11], &[0; 11]]), "the 10 bytes of a datetime, not 11");
    assert_refused(&pickle(&[&[FRAME], &u64::MAX.to_le_bytes()]), "ends in the middle, in FRAME");
    assert_refused(&pickle(&[&[LONG_BINGET, 255, 255, 255, 255]]), "not 4294967295");
    assert_refused(&pickle(&[&[SHORT_BINUNICODE, 2, 0xc3, 0x28]]), "takes UTF-8");
}

#[test]
fn frames_hold_whole_instructions() {
    let frame = |length: u64| [&[FRAME][..], &length.to_le_bytes()].concat();
    assert_refused(&pickle(&[&frame(2), &text("abc")]), "SHORT_BINUNICODE at byte 11 crosses the bounds");
    assert_refused(&pickle(&[&frame(20), &frame(2), &[NONE; 20]]), "FRAME at byte 11 crosses the bounds");
}

#[test]
fn ints_are_neither_negative_nor_huge() {
    let with_round = |int: &[u8]| state(&[("round", int.to_vec())]);
    assert_refused(&with_round(&[BININT, 255, 255, 255, 255]), "not negative, not -1");
    assert_refused(&with_round(&[LONG1, 1, 0x80]), "not negative");
    assert_refused(&with_round(&[LONG1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1]), "an int of 64 bits");
    assert_refused(&with_round(&[&[LONG1, 255][..], &[1; 255]].concat()), "an int of 64 bits, not one of 255 bytes");
    assert_eq!(decode_pickle(&with_round(&[LONG1, 0])).unwrap().round, 0);
    let largest = [&[LONG1, 9][..], &[255; 8], &[0]].concat();
    assert_eq!(decode_pickle(&with_round(&largest)).unwrap().round, u64::MAX);
}

#[test]
fn nesting_and_the_number_of_objects_are_bounded() {
    assert_refused(&pickle(&[&[MARK; 100_000]]), "would hold more than 8 open MARKs");
    assert_refused(&pickle(&[&[NONE; 1_000_000]]), "would hold more than 262144 values on the stack");
    assert_refused(&pickle(&[&[NONE], &[MEMOIZE; 2_000_000]]), "would hold more than 1048576 values in the memo");
    assert_refused(&pickle(&[&[EMPTY_DICT; 100_000]]), "would hold more than 65539 dicts");
    assert_refused(&pickle(&[&[EMPTY_SET; 3]]), "would hold more than 2 sets");
    let nodes = [vec![MEMOIZE], [BINGET, 0, EMPTY_TUPLE, NEWOBJ].repeat(MAX_NODES + 1)].concat();
    assert_refused(&pickle(&[&class(TORCH_MODULE, "_NodeDesc"), &nodes]), "names more than 65536 nodes");
    let items = [text("k"), vec![MEMOIZE], text("v"), vec![SETITEM], [BINGET, 0, NONE, SETITEM].repeat(MAX_NODES)];
    assert_refused(&pickle(&[&[EMPTY_DICT], &items.concat()]), "would hold more than 65536 items of a dict");
}

#[test]
fn values_below_a_mark_are_inaccessible() {
    assert_refused(&pickle(&[&[NONE, MARK, MEMOIZE]]), "MEMOIZE at byte 4 takes a value from the stack, not nothing");
    assert_refused(&pickle(&[&[EMPTY_DICT, MARK, MARK, SETITEMS]]), "a container below the MARK, not nothing");
    assert_refused(&pickle(&[&[EMPTY_DICT, SETITEMS]]), "the values above a MARK");
    assert_refused(&pickle(&[&[EMPTY_DICT, MARK, NONE, SETITEMS]]), "keys with a value each");
    assert_refused(&pickle(&[&[EMPTY_DICT, MARK, EMPTY_DICT, NONE, SETITEMS]]), "as a key, not a dict");
    assert_refused(&pickle(&[&[EMPTY_SET, MARK, NONE, ADDITEMS]]), "a _NodeDesc as a member, not None");
    assert_refused(&pickle(&[&[EMPTY_DICT, MARK, ADDITEMS]]), "takes a set, not a dict");
}

#[test]
fn building_calls_nothing() {
    let hook = [text("__setstate__"), class("datetime", "timedelta")].concat();
    assert_refused(&pickle(&[&node(&hook)]), "_NodeDesc has an attribute __setstate__");
    let on_a_class = [class(TORCH_MODULE, "_NodeDesc"), vec![EMPTY_DICT, BUILD]].concat();
    assert_refused(&pickle(&[&on_a_class]), "takes a _NodeDesc or the state, not a class");
    let slots = [class(TORCH_MODULE, "_NodeDesc"), vec![EMPTY_TUPLE, NEWOBJ, NONE, BUILD]].concat();
    assert_refused(&pickle(&[&slots]), "takes a dict of attributes, not None");
    assert_refused(
        &pickle(&[&plain_node(), &[EMPTY_DICT, BUILD]]),
        "a _NodeDesc without attributes, not a finished one",
    );
    let with_args = [class(TORCH_MODULE, "_NodeDesc"), vec![NONE, NEWOBJ]].concat();
    assert_refused(&pickle(&[&with_args]), "a class with None");
    let called = [class(TORCH_MODULE, "_NodeDesc"), vec![EMPTY_TUPLE, REDUCE]].concat();
    assert_refused(&pickle(&[&called]), "REDUCE");
}

#[test]
fn duplicates_are_refused() {
    let twice = [text("addr"), text("a"), text("addr"), text("b")].concat();
    assert_refused(&pickle(&[&node(&twice)]), "_NodeDesc has the attribute addr twice");
    let equal_nodes = [plain_node(), vec![BININT1, 0], plain_node(), vec![BININT1, 1]].concat();
    let participants = [&[EMPTY_DICT, MARK], &equal_nodes[..], &[SETITEMS]].concat();
    assert_refused(&state(&[("participants", participants)]), "node a_1_0 stands twice in participants");
    let wait_list = [&[EMPTY_SET, MARK], &plain_node()[..], &plain_node(), &[ADDITEMS]].concat();
    assert_refused(&state(&[("wait_list", wait_list)]), "node a_1_0 stands twice in wait_list");
    let second_state = class(TORCH_MODULE, "_RendezvousState");
    let second_state = [&second_state[..], &[EMPTY_TUPLE, NEWOBJ]].concat();
    assert_refused(&state(&[("round", second_state)]), "one _RendezvousState, not a second one");
}

#[test]
fn attributes_are_complete_known_and_of_their_kind() {
    let cases = [
        ("round", vec![NEWTRUE], "_RendezvousState.round is a bool, not an int"),
        ("complete", vec![BININT1, 1], "_RendezvousState.complete is an int, not a bool"),
        ("deadline", vec![BININT1, 1], "_RendezvousState.deadline is an int, not None or a datetime"),
        ("participants", vec![NONE], "_RendezvousState.participants is None, not a dict"),
        ("wait_list", vec![EMPTY_DICT], "_RendezvousState.wait_list is a dict, not a set"),
        ("last_heartbeats", vec![NONE], "_RendezvousState.last_heartbeats is None, not a dict"),
        ("extra", vec![NONE], "_RendezvousState has an attribute extra; this version of torch is not known"),
    ];
    for (name, value, text) in cases {
        assert_refused(&state(&[(name, value)]), text);
    }
    let by_text = [&[EMPTY_DICT][..], &text("addr"), &[BININT1, 0, SETITEM]].concat();
    assert_refused(&state(&[("participants", by_text)]), "_RendezvousState.participants is a str, not a dict of nodes");
    let no_rank = [&[EMPTY_DICT][..], &plain_node(), &[NONE, SETITEM]].concat();
    assert_refused(&state(&[("participants", no_rank)]), "_RendezvousState.participants is None, not an int");
    let nodes_pid_missing = node(&[text("addr"), text("a")].concat());
    assert_refused(&pickle(&[&nodes_pid_missing]), "_NodeDesc has no attribute pid");
    let unfinished = [class(TORCH_MODULE, "_NodeDesc"), vec![EMPTY_TUPLE, NEWOBJ]].concat();
    let wait_list = [&[EMPTY_SET, MARK][..], &unfinished, &[ADDITEMS]].concat();
    assert_refused(&state(&[("wait_list", wait_list)]), "a finished _NodeDesc, not one without attributes");
}

#[test]
fn times_are_utc_and_of_the_calendar() {
    let zone = |minutes: u8| {
        let delta = [class("datetime", "timedelta"), vec![BININT1, 0, BININT1, minutes, BININT1, 0, TUPLE3, REDUCE]];
        [class("datetime", "timezone"), delta.concat(), vec![TUPLE1, REDUCE]].concat()
    };
    let at = |bytes: [u8; 10], zone: &[u8]| {
        [&class("datetime", "datetime"), &[SHORT_BINBYTES, 10][..], &bytes, zone, &[TUPLE2, REDUCE]].concat()
    };
    let epoch = [0x07, 0xb2, 1, 1, 0, 0, 0, 0, 0, 0];
    let accepted = decode_pickle(&state(&[("deadline", at(epoch, &zone(0)))])).unwrap();
    assert_eq!(accepted.deadline.map(Stamp::unix_micros), Some(0));
    assert_refused(&pickle(&[&at(epoch, &zone(1))]), "the (0, 0, 0) of UTC's timedelta");
    assert_refused(&pickle(&[&at([0; 10], &zone(0))]), "a time of the calendar, not [00, 00");
    assert_refused(&pickle(&[&at(epoch, &[NONE])]), "the bytes of a datetime and UTC, not bytes and None");
    let naive = |bytes: [u8; 10]| {
        [&class("datetime", "datetime"), &[SHORT_BINBYTES, 10][..], &bytes, &[TUPLE1, REDUCE]].concat()
    };
    let accepted = decode_pickle(&state(&[("deadline", naive(epoch))])).unwrap().deadline.unwrap();
    assert_eq!((accepted.unix_micros(), accepted.zone()), (0, Zone::Unsaid));
    assert_refused(&pickle(&[&naive([0; 10])]), "a time of the calendar, not [00, 00");
    let of_text = [class("datetime", "datetime"), text("now"), vec![TUPLE1, REDUCE]].concat();
    assert_refused(&pickle(&[&of_text]), "the timedelta of UTC or the bytes of a datetime, not a str");
}

#[test]
fn only_the_attribute_that_torch_2_2_lacks_may_be_missing() {
    for (name, _) in attributes() {
        let read = decode_pickle(&state_without(name));
        match name {
            "redundancy_list" => assert_eq!(read, Ok(RendezvousState::default())),
            _ => assert_eq!(
                read.unwrap_err().to_string(),
                format!("_RendezvousState has no attribute {name}; this version of torch is not known")
            ),
        }
    }
}

#[test]
fn nothing_follows_the_state() {
    let mut longer = state(&[]);
    longer.push(STOP);
    assert_refused(&longer, "1 bytes follow the end of the pickle");
    let mut changed_later = state(&[]);
    changed_later.pop();
    changed_later.extend([MEMOIZE, STOP]);
    assert_refused(&changed_later, "opcode MEMOIZE");
    let below = pickle(&[&[NONE], &state(&[])[2..]]);
    assert_refused(&below, "the state alone on the stack, not more values");
    assert_refused(&pickle(&[&[NONE, STOP]]), "opcode STOP at byte 3");
}
