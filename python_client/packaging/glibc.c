/* Functions of newer versions of glibc, by older ones. Debian's static Swift runtime for arm64 calls them, and a wheel
   must also run where glibc lacks them. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* glibc 2.38 gives these names to functions that also read binary numbers (0b101), a novelty of C23. Swift's runtime
   does not need them to. */
long __isoc23_strtol(const char *text, char **end, int base) { return strtol(text, end, base); }

long long __isoc23_strtoll(const char *text, char **end, int base) { return strtoll(text, end, base); }

int __isoc23_sscanf(const char *text, const char *format, ...) {
    va_list values;
    va_start(values, format);
    int count = vsscanf(text, format, values);
    va_end(values);
    return count;
}

/* Copies at most size - 1 bytes and a zero, and returns the length of the source (glibc 2.38). */
size_t strlcpy(char *target, const char *source, size_t size) {
    size_t length = strlen(source);
    if (size > 0) {
        size_t copied = length < size ? length : size - 1;
        memcpy(target, source, copied);
        target[copied] = 0;
    }
    return length;
}
