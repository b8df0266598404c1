// The part of XLA's foreign function interface (version 0, any minor version) that Twofold uses: the structures of
// xla/ffi/api/c_api.h, which jaxlib contains, with other names. XLA calls Twofold's functions from compiled programs;
// they read arrays and attributes from a call frame. A test compares these structures with jaxlib's.
#ifndef TWOFOLD_XLA_H
#define TWOFOLD_XLA_H

#include <stddef.h>
#include <stdint.h>

typedef struct twofold_xla_extension {
    size_t struct_size;
    int type;
    struct twofold_xla_extension *next;
} twofold_xla_extension;

typedef struct {
    size_t struct_size;
    twofold_xla_extension *extension_start;
    int major_version;
    int minor_version;
} twofold_xla_version;

// An array argument or result. `dtype` is a TWOFOLD_XLA_ number.
typedef struct {
    size_t struct_size;
    twofold_xla_extension *extension_start;
    int dtype;
    void *data;
    int64_t rank;
    int64_t *dims;
} twofold_xla_buffer;

enum {
    TWOFOLD_XLA_PRED = 1,
    TWOFOLD_XLA_S8 = 2,
    TWOFOLD_XLA_S32 = 4,
    TWOFOLD_XLA_U8 = 6,
    TWOFOLD_XLA_U32 = 8,
    TWOFOLD_XLA_U64 = 9,
    TWOFOLD_XLA_F32 = 11,
    TWOFOLD_XLA_F64 = 12,
};

// The arguments or the results of a call.
typedef struct {
    size_t struct_size;
    twofold_xla_extension *extension_start;
    int64_t size;
    int *types;
    twofold_xla_buffer **buffers;
} twofold_xla_buffers;

typedef struct {
    const char *ptr;
    size_t len;
} twofold_xla_span;

// An attribute that is an array.
typedef struct {
    int dtype;
    size_t size;
    const void *data;
} twofold_xla_array;

enum { TWOFOLD_XLA_ATTRIBUTE_ARRAY = 1 };

typedef struct {
    size_t struct_size;
    twofold_xla_extension *extension_start;
    int64_t size;
    int *types;
    twofold_xla_span **names;
    void **values;
} twofold_xla_attributes;

typedef struct twofold_xla_error twofold_xla_error;

typedef struct {
    size_t struct_size;
    twofold_xla_extension *extension_start;
    const char *message;
    int code;
} twofold_xla_error_args;

enum {
    TWOFOLD_XLA_INVALID_ARGUMENT = 3,
    TWOFOLD_XLA_RESOURCE_EXHAUSTED = 8,
    TWOFOLD_XLA_FAILED_PRECONDITION = 9,
};

// The start of XLA's function table, up to the only function that Twofold calls.
typedef struct {
    size_t struct_size;
    twofold_xla_extension *extension_start;
    twofold_xla_version version;
    const void *internal_api;
    twofold_xla_error *(*create_error)(twofold_xla_error_args *);
} twofold_xla_api;

typedef struct {
    size_t struct_size;
    twofold_xla_extension *extension_start;
    const twofold_xla_api *api;
    void *context;
    int stage;
    twofold_xla_buffers arguments;
    twofold_xla_buffers results;
    twofold_xla_attributes attributes;
} twofold_xla_frame;

// Metadata that XLA asks for before the first call: an extension of type TWOFOLD_XLA_METADATA.
enum { TWOFOLD_XLA_METADATA = 1 };

typedef struct {
    size_t struct_size;
    twofold_xla_version version;
    uint32_t traits;
} twofold_xla_metadata;

typedef struct {
    twofold_xla_extension base;
    twofold_xla_metadata *metadata;
} twofold_xla_metadata_extension;

// The functions that twofold.jax registers. Each has an attribute `request`: an encoded twofold.v1.Request that creates
// an environment. The request states the rules; its number of boards is ignored. Arrays may have any number of leading
// axes, which must be the same for all arrays of a call. Each index along these axes is one lane. Each function returns
// NULL or an error.

// Arguments: seeds, uint32 (…, 2), the low word first.
// Results: the rest of the states, then the arrays of a reset.
twofold_xla_error *twofold_xla_reset(twofold_xla_frame *frame);

// Arguments: actions, uint8 (…), then the states.
// Results: the rest of the next states, then the arrays of a step. With SAME_STEP, a second copy of the arrays of a
// reset follows, with the rows from before the ended lanes restarted.
twofold_xla_error *twofold_xla_step(twofold_xla_frame *frame);

// 2048 only. Argument: boards. Results: afterstates, rewards, masks.
twofold_xla_error *twofold_xla_afterstates(twofold_xla_frame *frame);

// 2048 only. Arguments: boards, and seeds as above. Results: boards, outcomes.
twofold_xla_error *twofold_xla_spawn(twofold_xla_frame *frame);

#endif
