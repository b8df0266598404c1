// A complete client for a Twofold server, which needs only libzmq. protocol.md explains the bytes.
//
//     cc -std=c11 -Wall -Wextra -Werror -o minimal_client minimal_client.c -lzmq
//     ./minimal_client tcp://127.0.0.1:5555
//
// Plays the worked session of protocol.md: 100 steps with random legal actions on four 2048 boards.

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { ERROR = 15, CREATE = 17, RESET = 18, STEP = 19, CLOSE = 22, SHUTTING_DOWN = 10 };
enum { BOARDS = 4, ACTIONS = 4, STEPS = 100, DEADLINE = 5000 };  // DEADLINE of a request, in milliseconds

static const char *endpoint;
static void *context, *req;
static uint8_t request[128] = {0x0a, 16, [18] = 0x15, 1, [23] = 0x19};  // session; epoch 1; seq
static uint64_t seq = 1, hash = 14695981039346656037u;  // hash: FNV-1a over all payloads of replies
static zmq_msg_t header, payload;                       // the frames of the last reply

static _Noreturn void fail(const char *problem) {
    fprintf(stderr, "minimal_client: %s\n", problem);
    exit(1);
}

// A field of a protobuf message, or a whole message: a number in `value`, or `size` bytes.
typedef struct { uint64_t number, value, size; const uint8_t *bytes; } Field;

static uint64_t read_varint(Field *message) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && message->size; shift += 7) {
        uint8_t byte = *message->bytes++;
        message->size--;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
    fail("a reply is damaged; is this a Twofold server?");
}

static int next_field(Field *message, Field *field) {  // returns 0 at the end
    if (!message->size) return 0;
    uint64_t tag = read_varint(message), type = tag & 7;
    *field = (Field){.number = tag >> 3};
    if (type == 0) { field->value = read_varint(message); return 1; }
    field->size = type == 1 ? 8 : type == 5 ? 4 : read_varint(message);
    if (field->size > message->size) fail("a reply is cut short; is this a Twofold server?");
    field->bytes = message->bytes;
    *message = (Field){.size = message->size - field->size, .bytes = message->bytes + field->size};
    return 1;
}

static Field find(Field message, uint64_t number) {  // an empty field if absent
    Field found = {0};
    for (Field field; next_field(&message, &field);)
        if (field.number == number) found = field;
    return found;
}

static Field whole(zmq_msg_t *frame) {
    return (Field){.size = zmq_msg_size(frame), .bytes = zmq_msg_data(frame)};
}

static int retry_after(Field error) {  // prints it; returns milliseconds, or -1
    Field code = find(error, 1), text = find(error, 2), field = find(error, 3), lane = find(error, 4);
    fprintf(stderr, "error %d, field '%.*s', lane %d: %.*s\n", (int)code.value, (int)field.size, field.bytes,
            lane.number ? (int)lane.value : -1, (int)text.size, text.bytes);
    return code.value == SHUTTING_DOWN ? (int)find(error, 6).value : -1;
}

static Field ask(unsigned op, const char *body, size_t size, const uint8_t *arrays, size_t arrays_size) {
    for (int index = 0; index < 8; index++) request[24 + index] = (uint8_t)(seq >> 8 * index);
    memcpy(request + 32, (uint8_t[]){(op << 3 | 2 | 128) & 255, op >> 4, size & 127}, 3);  // slot, length
    memcpy(request + 35, body, size);
    for (int waited = 0, wait = 20; waited < DEADLINE; waited += wait + 1, wait = wait < 500 ? 2 * wait : 1000) {
        if (!req) {
            req = zmq_socket(context, ZMQ_REQ);
            zmq_setsockopt(req, ZMQ_LINGER, &(int){0}, sizeof(int));
            zmq_setsockopt(req, ZMQ_REQ_CORRELATE, &(int){1}, sizeof(int));  // drops late replies
            if (zmq_connect(req, endpoint)) fail(zmq_strerror(zmq_errno()));
        }
        zmq_setsockopt(req, ZMQ_RCVTIMEO, &wait, sizeof wait);
        zmq_send(req, request, 35 + size, arrays ? ZMQ_SNDMORE : 0);
        if (arrays) zmq_send(req, arrays, arrays_size, 0);
        if (zmq_msg_recv(&header, req, 0) >= 0) {
            int more = zmq_msg_more(&header) && zmq_msg_recv(&payload, req, 0) >= 0;
            Field result = find(whole(&header), op), error = find(whole(&header), ERROR);
            Field bytes = more ? whole(&payload) : (Field){0};
            while (bytes.size--) hash = (hash ^ *bytes.bytes++) * 1099511628211u;
            if (result.number) { seq++; return result; }
            if (!error.number) fail("a reply has no result; is this a Twofold server?");
            wait = retry_after(error);
            if (wait < 0 && seq > 1 && op != CLOSE) ask(CLOSE, "", 0, NULL, 0);  // the seq is still free
            if (wait < 0) exit(1);
            zmq_poll(NULL, 0, wait);  // sleeps
        }
        zmq_close(req);  // then sends the same bytes again over another socket
        req = NULL;
    }
    fail("no reply; is a server running there?");
}

static const uint8_t *array(Field layout, const char *name, size_t size) {  // in the last reply's payload
    Field bytes = whole(&payload);
    for (Field each; next_field(&layout, &each);) {
        Field text = find(each, 1), offset = find(each, 4);
        if (text.size == strlen(name) && !memcmp(text.bytes, name, text.size) && offset.value <= bytes.size
            && size <= bytes.size - offset.value) return bytes.bytes + offset.value;
    }
    fail("a payload lacks an array; is this a Twofold server?");
}

int main(int argc, char **argv) {
    FILE *random = fopen("/dev/urandom", "rb");
    if (argc != 2 || !random || !fread(request + 2, 16, 1, random)) fail("usage: minimal_client <endpoint>");
    endpoint = argv[1];
    context = zmq_ctx_new();
    zmq_msg_init(&header);
    zmq_msg_init(&payload);

    ask(CREATE, "\x0a\x13twofold/Game2048-v0\x10\x04", 23, NULL, 0);  // environment_id; num_envs: 4
    zmq_msg_t created;  // keeps the layouts
    zmq_msg_init(&created);
    zmq_msg_move(&created, &header);
    Field reply = find(whole(&created), CREATE), reset = find(reply, 4), step = find(reply, 5);

    ask(RESET, "\x08\x01", 2, (uint8_t[8 * BOARDS]){[8] = 1, [16] = 2, [24] = 3}, 8 * BOARDS);  // seeds
    uint32_t word = 0;
    for (int done = 0; done < STEPS; done++) {
        const uint8_t *mask = array(done ? step : reset, "action_mask", BOARDS * ACTIONS);
        uint8_t actions[BOARDS] = {0};
        for (int lane = 0; lane < BOARDS; lane++, mask += ACTIONS) {
            word = word * 1664525 + 1013904223;
            int choice = (uint64_t)word * (mask[0] + mask[1] + mask[2] + mask[3]) >> 32;
            for (int action = 0; action < ACTIONS; action++)
                if (mask[action] && choice-- == 0) actions[lane] = (uint8_t)action;
        }
        ask(STEP, "", 0, actions, BOARDS);
    }
    const uint8_t *score = array(step, "score", 4 * BOARDS), *tile = array(step, "max_exponent", BOARDS);
    for (int lane = 0; lane < BOARDS; lane++, score += 4)
        printf("board %d: score %u, highest tile %u\n", lane,
               score[0] | score[1] << 8 | score[2] << 16 | (unsigned)score[3] << 24, 1u << (tile[lane] & 31));
    ask(CLOSE, "", 0, NULL, 0);
    printf("hash %016" PRIx64 "\n", hash);
}
