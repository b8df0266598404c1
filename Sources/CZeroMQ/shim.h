// What Swift sees of libzmq: its own header, from Debian's libzmq3-dev.
//
// The module map links "zmq" by name. There is no pkgConfig entry in Package.swift: Debian's
// libzmq.pc lists flags that SwiftPM refuses with a warning on every build.
#include <zmq.h>
