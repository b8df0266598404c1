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

bool twofold_ignores_signal(int number) {
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int twofold_report_signal(int number, int pipe) {
    struct sigaction action = {.sa_handler = report, .sa_flags = SA_RESTART};
    atomic_store(&pipes[number], pipe);
    if (sigaction(number, &action, NULL) != 0) return -1;
    // A thread that blocks signals may have started this process.
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, number);
    pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
    return 0;
}
