//! What holds for every command line.

use proptest::{collection, prelude::*, sample::select};

use super::{environment, owned};
use crate::launch_options::{Asked, OptionSpec, all, parse};

/// Words that look a little like those of a command line.
fn word() -> impl Strategy<Value = String> {
    let spellings: Vec<String> = all().flat_map(OptionSpec::spellings).collect();
    let values =
        vec!["1", "2:4", "0:3,1:1", "c10d", "static", "h:0", "[::1]:5", "a=1,b", "gpu", "-1", "--", "-", "", "é=Ω"];
    prop_oneof![
        select(spellings.clone()),
        (select(spellings), select(values.clone())).prop_map(|(name, value)| format!("{name}={value}")),
        select(values).prop_map(str::to_owned),
        "-{0,3}[a-zA-Z_=:,é-]{0,12}",
        ".{0,8}",
    ]
}

fn variables() -> impl Strategy<Value = Vec<(String, String)>> {
    let names: Vec<String> = all().filter_map(OptionSpec::env_name).chain(["NODE_NUM".to_owned()]).collect();
    collection::vec((select(names), prop_oneof!["[0-9:,=a-z]{0,6}", ".{0,6}"]), 0..4)
}

proptest! {
    #[test]
    fn whatever_is_typed_is_answered_without_panic(args in collection::vec(word(), 0..8), env in variables()) {
        let env = env.into_iter().collect();
        match parse(&args, &env) {
            Ok(parsed) => {
                prop_assert!(parsed.warnings.iter().all(|warning| !warning.is_error()));
                if let Asked::Launch(options) = parsed.asked {
                    prop_assert!(1 <= options.nodes.min && options.nodes.min <= options.nodes.max);
                    prop_assert!(!options.program.argv.is_empty());
                    prop_assert_eq!(options.program.argv.last(), args.last(), "the last word is the program's");
                }
            }
            Err(findings) => prop_assert!(findings.iter().any(crate::Finding::is_error), "{findings:?}"),
        }
    }

    #[test]
    fn whatever_stands_behind_the_program_is_its_own(rest in collection::vec(word(), 0..8)) {
        let args = [owned(&["--nproc-per-node=2", "--no-python", "./train"]), rest.clone()].concat();
        match parse(&args, &environment(&[])).map(|parsed| parsed.asked) {
            Ok(Asked::Launch(options)) => prop_assert_eq!(&options.program.argv[1..], rest),
            other => prop_assert!(false, "{other:?}"),
        }
    }
}
