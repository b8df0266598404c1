// The transport limit: a REP server that does nothing. It answers every request with the same two
// frames, sent from constant memory without a copy.
//
//     echo_server <endpoint> <reply file> <bytes of the header>
//
// The reply file contains the header frame, followed by the payload frame.

#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>
#ifdef __linux__
#include <signal.h>
#include <sys/prctl.h>
#endif

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    FILE *file = fopen(argv[2], "rb");
    if (!file) return fail(argv[2]);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file), header = (size_t)atol(argv[3]);
    rewind(file);
    char *reply = malloc(size);
    if (fread(reply, 1, size, file) != size) return fail(argv[2]);
    fclose(file);

    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_REP);
    if (zmq_bind(socket, argv[1])) return fail("zmq_bind");
    char endpoint[256];
    size_t length = sizeof endpoint;
    if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &length)) return fail("zmq_getsockopt");
    printf("listening on %s\n", endpoint);
    fflush(stdout);

    zmq_msg_t frame;
    zmq_msg_init(&frame);
    for (;;) {
        do {
            if (zmq_msg_recv(&frame, socket, 0) < 0) return fail("zmq_msg_recv");
        } while (zmq_msg_more(&frame));
        if (zmq_send_const(socket, reply, header, ZMQ_SNDMORE) < 0 ||
            zmq_send_const(socket, reply + header, size - header, 0) < 0)
            return fail("zmq_send_const");
    }
}
