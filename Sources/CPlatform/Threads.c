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

bool twofold_can_open(size_t count) {
    int copies[4];
    size_t opened = 0;
    bool can = count <= 4;
    while (can && opened < count) {
        const int copy = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
        if (copy >= 0) {
            copies[opened++] = copy;
        } else {
            // If the standard input is closed, at least its own number is free.
            can = errno == EBADF;
            break;
        }
    }
    for (size_t i = 0; i < opened; i++) close(copies[i]);
    return can;
}

bool twofold_can_start_threads(size_t count) {
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
