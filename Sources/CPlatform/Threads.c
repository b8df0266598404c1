#include "CPlatform.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *wait_at(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

bool twofold_can_start_threads(size_t count) {
    int descriptors[2];
    if (pipe(descriptors) != 0) return false;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads = calloc(count, sizeof *threads);
    size_t started = 0;
    pthread_mutex_lock(&gate);
    while (threads && started < count && pthread_create(&threads[started], NULL, wait_at, &gate) == 0) started++;
    pthread_mutex_unlock(&gate);
    for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    free(threads);
    close(descriptors[0]);
    close(descriptors[1]);
    return started == count;
}
