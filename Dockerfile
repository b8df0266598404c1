# Two images (docs/operations/container.md): `server` has only the server, `trainer` has Python with the package.

FROM swift:6.3-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends dpkg-dev g++ libsodium-dev libzmq3-dev make python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /twofold
COPY LICENSE Package.swift ./
COPY Sources Sources
COPY Tests Tests
COPY python_client python_client
# The modification time of the files in the wheel, in seconds since 1970.
ARG SOURCE_DATE_EPOCH=1577836800
RUN python3 python_client/packaging/build.py

FROM debian:bookworm-slim AS base
RUN useradd --uid 10001 --create-home twofold

FROM base AS server
LABEL org.opencontainers.image.title="twofold" \
      org.opencontainers.image.description="Reinforcement-learning environments, stepped over ZeroMQ" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN install --directory --owner=twofold --group=twofold --mode=700 /run/twofold /var/lib/twofold
COPY --from=build /twofold/.build/wheel/bundle/licenses /usr/share/doc/twofold/
COPY --from=build /twofold/.build/wheel/bundle/twofold-server /usr/local/bin/twofold
# `ping` asks the first endpoint. Over ipc it needs no keys, even if the tcp endpoint does.
ENV TWOFOLD_ENDPOINT=ipc:///run/twofold/server.sock,tcp://0.0.0.0:5555 \
    TWOFOLD_STATE_DIR=/var/lib/twofold/sessions
# The only directories that the server writes to.
VOLUME ["/run/twofold", "/var/lib/twofold"]
EXPOSE 5555
# A number, which lets Kubernetes verify that the user is not root.
USER 10001:10001
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s CMD ["twofold", "ping"]
ENTRYPOINT ["twofold"]
CMD ["serve"]

FROM base AS trainer
LABEL org.opencontainers.image.title="twofold-trainer" \
      org.opencontainers.image.description="Python with Twofold" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=build,source=/twofold/python_client/dist,target=/dist \
    python3 -m venv /opt/twofold \
    && /opt/twofold/bin/pip install --no-cache-dir --disable-pip-version-check /dist/*manylinux*.whl
ENV PATH=/opt/twofold/bin:$PATH
USER 10001:10001
CMD ["python"]
