#include "CPlatform.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int pipes[NSIG];

// Calls only functions that a handler may call (signal-safety(7)).
static void report(int number) {
    const int error = errno;
    // Fails only if the pipe is full; its other end is readable then, too.
    (void)!write(atomic_load(&pipes[number]), "", 1);
    errno = error;
}

int twofold_report_signal(int number, int pipe) {
    struct sigaction action = {.sa_handler = report, .sa_flags = SA_RESTART};
    atomic_store(&pipes[number], pipe);
    return sigaction(number, &action, NULL);
}
