#!/usr/bin/env bash
# Regenerates the Swift and Python code of the protocol from proto/. Run it after a change there and
# commit what it writes; builds and tests never need it.
#
# The Swift plugin is built from the package's own swift-protobuf (minutes, once). Python code comes
# from an old protoc on purpose: a protobuf runtime refuses code that a newer protoc generated and
# takes older code. This protoc needs Python 3.12 or older: PYTHON=python3.12 proto/generate.sh
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.build/protoc-venv
if ! "$venv/bin/python" -c 'import grpc_tools' 2>/dev/null; then
    "${PYTHON:-python3}" -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet "grpcio-tools==1.65.5" "setuptools<81"
fi
swift package resolve
plugin_build=.build/protoc-gen-swift
swift build -c release --package-path .build/checkouts/swift-protobuf \
    --scratch-path "$plugin_build" --product protoc-gen-swift

"$venv/bin/python" -m grpc_tools.protoc -I proto \
    --plugin=protoc-gen-swift="$plugin_build/release/protoc-gen-swift" \
    --swift_out=Sources/TwofoldProtocol/Generated \
    --swift_opt=Visibility=Public --swift_opt=FileNaming=DropPath \
    --python_out=python_client/src --pyi_out=python_client/src \
    proto/twofold/v1/*.proto
