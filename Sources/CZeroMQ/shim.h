// The C functions of libzmq for Swift: libzmq's own header, from Debian's libzmq3-dev.
//
// Package.swift links "zmq" by name, except for a wheel's server, which links libzmq statically. Package.swift does not
// use pkgConfig, because Debian's libzmq.pc lists flags that SwiftPM refuses with a warning on every build.
#include <zmq.h>
