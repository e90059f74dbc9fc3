//! Compiles the protocol buffers; no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = [
        "elasticdl/pserver.proto",
        "flexor/journal/v1/journal.proto",
        "flexor/local/v1/local.proto",
        "flexor/master/v1/master.proto",
        "flexor/ps/v1/ps.proto",
    ];
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(files, ["proto"])?;
    let messages = tonic_prost_build::configure().bytes(".").codec_path("crate::CompactCodec");
    // Much larger than what else a master proposes.
    let messages = messages.boxed(".flexor.master.v1.Proposal.kind.training");
    // Names in order, so that nothing depends on chance.
    messages.btree_map(".proto").compile_fds(descriptors)?;
    Ok(())
}
