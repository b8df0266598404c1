"""The protocol's messages, generated from proto/twofold/v1 by proto/generate.sh."""
