// Twofold in the calling process: the environments of twofold-server as functions of libtwofold.so.
//
// Requests and replies follow the protocol (proto/twofold/v1): a protobuf header, then at most one payload of
// raw little-endian arrays. A server's guarantees hold here, too. A request is executed once, however often
// it is repeated. A refused request has changed nothing, and the refusal names the code, the field and the
// lane. All callers count as one client, so `resume` and `stats` are refused.
//
// Any thread may call any function. No argument can end the process, as long as each pointer points to the
// stated number of bytes. A request for which the process has no memory is refused with RESOURCE_EXHAUSTED.
// Calls of one session must follow each other: a second call is refused while the first is running. A session's
// call takes at most about 0.1 s, unless a single step, snapshot or restore of all boards takes longer, or the call
// has to read a table of optimal values. `twofold_learn` plays all its steps, however long they take.
//
// Dispatch spreads batches over threads. If the process can't start threads, or has no free file descriptor, the
// first large batches run on the calling thread. In a process that was forked after this library was used, all
// batches do. Such a process must not use its parent's services; it creates its own. A process must not fork while
// its first `twofold_create`, `twofold_learn` or expectimax search is running, because the call's locks would stay
// locked in the child.
#ifndef TWOFOLD_H
#define TWOFOLD_H

#include <stddef.h>
#include <stdint.h>

// The version of this interface. Different versions have different functions or structures.
#define TWOFOLD_INTERFACE 6

// The status that a function returns.
enum {
    // The request was executed, refused, or repeated: the reply's header says which.
    TWOFOLD_ANSWERED = 0,
    // A step was executed and its payload is the whole reply: no header was written.
    TWOFOLD_STEPPED = 1,
    // The reply needs more room. Its sizes say how much; nothing else was written. Repeat the call with more room to
    // get the reply; a session's request is not executed twice.
    TWOFOLD_TOO_SMALL = 2,
    // The service does not exist.
    TWOFOLD_NO_SERVICE = 3,
    // A pointer is missing, or a size is impossible.
    TWOFOLD_BAD_ARGUMENT = 4,
    // The service cannot be created; the message says why.
    TWOFOLD_FAILED = 5,
};

// The caller's memory for a reply, and the number of bytes used.
typedef struct {
    // The encoded twofold.v1.Reply; 64 KiB is enough for all but unusual replies.
    uint8_t *header;
    size_t header_capacity;
    size_t header_size;
    // The payload; `payload_size` is 0 if the reply has none.
    uint8_t *payload;
    size_t payload_capacity;
    size_t payload_size;
} twofold_reply;

// The arguments that all steps of a session share. Fewer arguments make a call from Python faster.
typedef struct {
    uint64_t service;
    // The session's id and epoch.
    uint8_t session[16];
    uint32_t epoch;
    // The size of an action in bytes: 1, 2, 4 or 8 for unsigned integers, -1, -2, -4 or -8 for signed ones.
    // Actions have the machine's byte order.
    int32_t width;
    // The number of actions, one for each board.
    size_t count;
    // The memory for the reply.
    twofold_reply *reply;
} twofold_steps;

// A network that learns, and the boards on which it plays. The caller owns all memory, so the library keeps nothing
// between two calls: with one thread, the results are a pure function of the arguments.
typedef struct {
    // The encoded twofold.v1.Request that creates the boards of 2048. It states their number and the rules. `form` is
    // the encoded twofold.v1.NTupleForm of the network.
    const uint8_t *request;
    size_t request_size;
    const uint8_t *form;
    size_t form_size;
    // The number of threads, 1 ... 1024. Several threads share the weights without locks.
    uint32_t threads;
    // The factor of all corrections, above 0 and at most 1.
    float learning_rate;
    // The number of steps on each board.
    uint64_t steps;
    // uint64 [num_envs]: the seeds of new games, or NULL to continue from `state`.
    const uint8_t *seeds;
    // float32 [weight_count, 3]: for each weight, table by table, the weight, the sum of its errors, and the sum of their
    // magnitudes.
    float *weights;
    // uint8 [state_size]: the boards, and the afterstate of each board's last move.
    uint8_t *state;
    size_t weight_count;
    size_t state_size;
    // The counters, to which each call adds: the steps on each board, the moves on all boards, the games that ended,
    // the sum of their scores, and the number of these games that reached the goal.
    uint64_t played;
    uint64_t moves;
    uint64_t episodes;
    uint64_t score;
    uint64_t goals;
} twofold_learner;

// Returns the library's TWOFOLD_INTERFACE.
uint32_t twofold_interface(void);

// Returns the version of Twofold, for example "0.1.0".
const char *twofold_version(void);

// Creates a service with its own sessions, limits and memory. Its settings come from the same TWOFOLD_
// environment variables as a server's (docs/operations/server.md), but its sessions never time out. A
// process can have 4,096 services at a time. The number of a service is never reused.
//
// Writes the service's number to `service`. On failure, writes the reason to `message`, which has room for
// `capacity` bytes including the closing zero.
int32_t twofold_create(uint64_t *service, char *message, size_t capacity);

// Ends a service and all its sessions as soon as no call uses them any more.
int32_t twofold_destroy(uint64_t service);

// Executes one request. `header` is the encoded twofold.v1.Request; `payload` is NULL if the request has
// none.
int32_t twofold_call(
    uint64_t service, const uint8_t *header, size_t header_size, const uint8_t *payload, size_t payload_size,
    twofold_reply *reply);

// Executes one step without protobuf, from the request's seq and the actions. A refusal names the lane of an
// action that is out of range. Actions are read only if their number equals the number of boards. A repeat
// must use this function, too.
int32_t twofold_step(const twofold_steps *steps, uint64_t seq, const void *actions);

// Plays with a network of n-tuples, and improves it after each move. Without `weights`, only checks the arguments, and
// writes the sizes that `weights` and `state` must have. The reply has no payload. Its header is empty, or contains the
// refusal.
int32_t twofold_learn(twofold_learner *learner, twofold_reply *reply);

#endif
