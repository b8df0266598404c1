// Refuses connections before they take the last descriptors. libzmq can't: its ipc listener ends the process when
// accept fails for want of a descriptor, and its tcp listener asks again at once, for as long as that lasts.
//
// CConnections.c defines accept and accept4. In an executable they take the place of libc's for all that is linked
// to it, so libzmq calls these. Until ceilings are set they do what libc's do.
#ifndef TWOFOLD_CCONNECTIONS_H
#define TWOFOLD_CCONNECTIONS_H

// From now on a connection whose descriptor would not be below the ceiling of its kind is closed at once:
// `local` is for those of Unix sockets, `network` for all others.
void twofold_set_connection_ceilings(int local, int network);

// Connections that were refused so far, or had to wait because accept had no descriptor or memory for them.
long twofold_refused_connections(void);

#endif
