// What Swift sees of libzmq: its own header, from Debian's libzmq3-dev.
//
// Package.swift links "zmq" by name (a wheel's server: an archive of its own). There is no pkgConfig entry there:
// Debian's libzmq.pc lists flags that SwiftPM refuses with a warning on every build.
#include <zmq.h>
