//! Compiles the protocol buffers; no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["flexor/journal/v1/journal.proto", "flexor/local/v1/local.proto", "flexor/master/v1/master.proto"];
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure().bytes(".").codec_path("crate::CompactCodec").compile_fds(descriptors)?;
    Ok(())
}
