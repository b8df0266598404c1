// Twofold in a process: the environments that twofold-server serves, called as functions of libtwofold.so.
//
// Requests and replies are those of the protocol (proto/twofold/v1): a protobuf header, then at most one payload of
// raw little-endian arrays. What a server promises holds here, too: a request is carried out once, however often it
// is repeated; one that is refused has changed nothing; and the refusal names the code, the field and the lane. All
// callers are one client, so `resume` and `stats` are refused.
//
// Every function may be called from any thread, and nothing that its arguments hold ends the process, as long as
// pointers lead to as many bytes as is said of them. A request that the process has no memory for is refused with
// RESOURCE_EXHAUSTED. Calls of one session are made one at a time: a second one is
// refused while the first lasts. A call lasts about 0.1 s at most, where a single step of all boards does not take
// longer. Batches are spread over threads with Dispatch; in a process that was forked after it had used this library
// they run on one thread, and the services of its parent are not to be used there: it makes its own.
#ifndef TWOFOLD_H
#define TWOFOLD_H

#include <stddef.h>
#include <stdint.h>

// The version of this interface; another one has other functions or structures.
#define TWOFOLD_INTERFACE 3

// What a function returns.
enum {
    // Carried out, refused, or repeated: the reply's header says which.
    TWOFOLD_ANSWERED = 0,
    // A step was carried out, and there is nothing to say of it beside its payload: no header was written.
    TWOFOLD_STEPPED = 1,
    // The reply needs more room: its sizes say how much, and nothing else was written. The same call again, with
    // more room, gets it; a session's request is not carried out twice.
    TWOFOLD_TOO_SMALL = 2,
    // There is no such service.
    TWOFOLD_NO_SERVICE = 3,
    // A pointer is missing, or a size is impossible.
    TWOFOLD_BAD_ARGUMENT = 4,
    // The service can't be made; the message says why.
    TWOFOLD_FAILED = 5,
};

// Where a reply goes: memory of the caller, and how much of it was used.
typedef struct {
    // The encoded twofold.v1.Reply; 64 KiB are enough for all but strange ones.
    uint8_t *header;
    size_t header_capacity;
    size_t header_size;
    // The payload, whose size is 0 without one.
    uint8_t *payload;
    size_t payload_capacity;
    size_t payload_size;
} twofold_reply;

// What the steps of a session have in common: the fewer arguments, the quicker Python makes a call.
typedef struct {
    uint64_t service;
    // The session's id and epoch.
    uint8_t session[16];
    uint32_t epoch;
    // Bytes of an action, an integer of the machine (1, 2, 4 or 8), signed where that is negative (-1, -2, -4 or -8).
    int32_t width;
    // Actions, one for each board.
    size_t count;
    // Where the reply goes.
    twofold_reply *reply;
} twofold_steps;

// TWOFOLD_INTERFACE of the library.
uint32_t twofold_interface(void);

// The version of Twofold, "0.1.0".
const char *twofold_version(void);

// Makes a service with sessions, limits and memory of its own. Its settings are a server's, from the same TWOFOLD_
// variables of the environment (docs/operations/server.md); no session of it is ever idle for too long. A process has
// 4,096 services at a time; a number is never given twice.
//
// `service` gets its number; `message`, which has room for `capacity` bytes, what is wrong, with a closing zero.
int32_t twofold_create(uint64_t *service, char *message, size_t capacity);

// Ends a service and all of its sessions, as soon as no call uses them any more.
int32_t twofold_destroy(uint64_t service);

// Carries out one request: `header` is the encoded twofold.v1.Request, `payload` NULL where it has none.
int32_t twofold_call(
    uint64_t service, const uint8_t *header, size_t header_size, const uint8_t *payload, size_t payload_size,
    twofold_reply *reply);

// Carries out one step, without protobuf: the request's seq, and the actions; the one that is out of range is named
// with its lane. Actions are read only if there are as many as boards. A repeat has to come this way, too.
int32_t twofold_step(const twofold_steps *steps, uint64_t seq, const void *actions);

#endif
