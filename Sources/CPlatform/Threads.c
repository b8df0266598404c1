#include "CPlatform.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *wait_at(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

bool twofold_can_open(void) {
    const int copy = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    // If the standard input is closed, its number is free.
    if (copy < 0) return errno == EBADF;
    close(copy);
    return true;
}

bool twofold_can_start_threads(size_t count) {
    int pipes[3][2];
    size_t opened = 0;
    while (opened < 3 && pipe(pipes[opened]) == 0) opened++;
    for (size_t i = 0; i < opened; i++) {
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
    if (opened < 3) return false;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads = calloc(count, sizeof *threads);
    size_t started = 0;
    pthread_mutex_lock(&gate);
    while (threads && started < count && pthread_create(&threads[started], NULL, wait_at, &gate) == 0) started++;
    pthread_mutex_unlock(&gate);
    for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    free(threads);
    return started == count;
}
