//! Tracebacks as Python, torch and torchrun print them.

use proptest::prelude::*;

use super::*;

fn last(text: &str) -> String {
    Traceback::last_in(text).map_or_else(|| "none".to_owned(), |traceback| traceback.to_string())
}

#[test]
fn an_exception_is_told_with_its_message_and_the_users_frame() {
    let text = r#"epoch 1
Traceback (most recent call last):
  File "/x/train.py", line 9, in <module>
    main()
    ~~~~^^
  File "/x/train.py", line 5, in main
    model(batch)
  File "/env/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1751, in _call_impl
    return forward_call(*args, **kwargs)
RuntimeError: mat1 and mat2 shapes cannot be multiplied
  (4x3 and 4x3)
"#;
    let found = Traceback::last_in(text).unwrap();
    assert_eq!(found.to_string(), "RuntimeError: mat1 and mat2 shapes cannot be multiplied (at /x/train.py:5 in main)");
    assert!(found.text().starts_with(FIRST_LINE) && found.text().ends_with("be multiplied"), "{}", found.text());
    assert!(!found.is_of_launcher() && !found.is_requested());
}

#[test]
fn a_line_without_frames_of_the_user_names_the_innermost() {
    let text = "Traceback (most recent call last):\n  File \"<frozen runpy>\", line 8, in _run\nImportError: no x\n";
    assert_eq!(last(text), "ImportError: no x (at <frozen runpy>:8 in _run)");
    assert_eq!(last("Traceback (most recent call last):\nValueError\n"), "ValueError");
}

#[test]
fn the_words_of_torch_and_of_other_processes_are_no_part_of_it() {
    let text = r#"[rank1]: Traceback (most recent call last):
step 7 loss 0.3
[rank1]:   File "/x/train.py", line 2, in <module>
W1118 04:10:01.1 99 torch/x.py:1] Traceback of another kind
[rank1]:     raise KeyError("label")
[rank1]: KeyError: 'label'
[rank0]: later words
"#;
    assert_eq!(last(text), "KeyError: 'label' (at /x/train.py:2)");
}

#[test]
fn of_a_chain_the_last_exception_counts() {
    let text = r#"Traceback (most recent call last):
  File "/x/a.py", line 1, in <module>
KeyError: 1

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/a.py", line 3, in <module>
my.pkg.Broken: all is lost
"#;
    let found = Traceback::last_in(text).unwrap();
    assert_eq!((found.to_string().as_str(), found.is_chained()), ("my.pkg.Broken: all is lost (at /x/a.py:3)", true));
}

#[test]
fn a_file_that_cannot_be_parsed_and_a_group_have_tracebacks_too() {
    let syntax = "  File \"/x/train.py\", line 3\n    print(\n         ^\nSyntaxError: '(' was never closed\n";
    assert_eq!(last(syntax), "SyntaxError: '(' was never closed (at /x/train.py:3)");
    let group = "  + Exception Group Traceback (most recent call last):\n  |   File \"/x/g.py\", line 1, in <module>\n  | \
                 ExceptionGroup: many (1 sub-exception)\n  +-+---------------- 1 ----------------\n    | Traceback \
                 (most recent call last):\n    |   File \"/x/g.py\", line 2, in f\n    | ValueError: one\n    \
                 +------------------------------------\n";
    assert_eq!(last(group), "ValueError: one (at /x/g.py:2 in f)");
}

#[test]
fn a_launchers_own_traceback_and_an_interrupt_are_told_apart() {
    let torchrun = "Traceback (most recent call last):\n  File \"/env/bin/torchrun\", line 8, in <module>\n  File \
                    \"/env/lib/python3.11/site-packages/torch/distributed/run.py\", line 1, in main\n\
                    torch.distributed.elastic.rendezvous.api.RendezvousClosedError\n";
    assert!(Traceback::last_in(torchrun).unwrap().is_of_launcher());
    let interrupt = "Traceback (most recent call last):\n  File \"/x/a.py\", line 1, in <module>\nKeyboardInterrupt\n";
    assert!(Traceback::last_in(interrupt).unwrap().is_requested());
}

#[test]
fn what_is_no_traceback_is_none() {
    for text in ["", "ValueError: alone\n", "Traceback (most recent call last):\n", "  File \"x\", line y\nA: b\n"] {
        assert_eq!(last(text), "none", "{text}");
    }
    let endless = format!("{FIRST_LINE}\n{}ValueError: late\n", "some words here\n".repeat(MAX_FOREIGN + 1));
    assert_eq!(last(&endless), "none");
}

#[test]
fn a_deep_recursion_and_a_long_message_are_bounded() {
    let frames = "  File \"/x/a.py\", line 7, in f\n".repeat(5000);
    let text = format!("{FIRST_LINE}\n{frames}RecursionError: {}\n", "é".repeat(9000));
    let found = Traceback::last_in(&text).unwrap();
    assert!(found.frames.len() <= MAX_LINES && found.lines.len() <= MAX_LINES + 1 && found.exception.len() <= MAX_LINE);
    assert!(found.to_string().ends_with("é… (at /x/a.py:7 in f)"), "{found}");
}

proptest! {
    #[test]
    fn no_output_makes_it_panic(lines in proptest::collection::vec(
        prop_oneof![Just(FIRST_LINE.to_owned()), "(\\[rank0\\]: )?  File \"a\", line [0-9]{0,3}(, in f)?", "[A-Z][a-z.]{0,5}: .{0,9}", ".{0,30}"],
        0..60,
    )) {
        let _ = Traceback::last_in(&lines.join("\n"));
    }
}
