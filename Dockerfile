# The image of Flexor, for builders that read Dockerfiles. `cargo xtask image` makes its like without a builder;
# a test of crates/flexor-image keeps what is around the program equal.
#
#   docker build --tag registry.example/flexor:1 --build-arg REVISION="$(git rev-parse HEAD)" .

# Any image with this toolchain and a C compiler, such as a mirror of yours.
ARG RUST_IMAGE=docker.io/library/rust:1.95.0-bookworm
FROM ${RUST_IMAGE} AS build
WORKDIR /flexor
COPY . .
# Static and at a fixed address, as in xtask/src/image/build.rs. With a target the flags are not for build scripts and
# macros, which cannot be static.
RUN target="$(rustc -vV | sed -n 's/^host: //p')" \
    && RUSTFLAGS="-Ctarget-feature=+crt-static -Crelocation-model=static" \
       cargo build --locked --release --package flexor --bin flexor --target "$target" \
    && "target/$target/release/flexor" --version \
    && mkdir -p /image/usr/local/bin \
    && mkdir -m 1777 /image/tmp \
    && cp "target/$target/release/flexor" /image/usr/local/bin/flexor

FROM scratch
ARG REVISION=
COPY --from=build /image/ /
LABEL org.opencontainers.image.title="flexor" \
      org.opencontainers.image.description="Elastic, fault-tolerant deep-learning training in one Rust binary" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${REVISION}"
ENV PATH=/usr/local/bin:/usr/bin:/bin
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/usr/local/bin/flexor"]
