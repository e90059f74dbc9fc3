//! `flexor env`: prints the environment variables that connect another launcher to a master.

use flexor_dialects::torchrun_env;
use serde_json::{Map, Value};

use crate::cli::{EnvFormat, TorchrunEnvArgs};
use crate::exit::Exit;
use crate::output;

pub fn torchrun(args: &TorchrunEnvArgs) -> anyhow::Result<Exit> {
    if let Err(error) = check(args) {
        output::note(&format!("error: {error}"));
        return Ok(Exit::Failure);
    }
    let variables = torchrun_env::variables(&args.nnodes, &args.id, &args.endpoint);
    match args.output {
        EnvFormat::Shell => {
            let line = |(name, value): &(&str, String)| format!("export {name}={}\n", quoted(value));
            output::text(&variables.iter().map(line).collect::<String>())?;
        }
        EnvFormat::Json => {
            let object: Map<String, Value> =
                variables.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
            output::json(&object)?;
        }
    }
    Ok(Exit::Success)
}

/// Checks the values here, because torchrun would report wrong ones on every node.
fn check(args: &TorchrunEnvArgs) -> Result<(), String> {
    let (least, most) = args.nnodes.split_once(':').unwrap_or((&args.nnodes, &args.nnodes));
    let sizes = least.parse::<u32>().ok().zip(most.parse::<u32>().ok());
    if !sizes.is_some_and(|(least, most)| 0 < least && least <= most) {
        return Err(format!("--nnodes {}: write MIN:MAX, such as 2:4, or N", args.nnodes));
    }
    let port = args.endpoint.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    if !matches!(port, Some(Ok(_))) {
        return Err(format!("--endpoint {}: write HOST:PORT, such as 127.0.0.1:29400", args.endpoint));
    }
    Ok(())
}

/// Quotes a value for a POSIX shell where necessary.
fn quoted(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/=,@%+".contains(&byte);
    if !value.is_empty() && value.bytes().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_for_a_shell() {
        assert_eq!(quoted("host:29400"), "host:29400");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
