/* Moves the wall clock of the process it is preloaded into by as many
   microseconds as the first eight bytes of the file PAWL_CLOCK say. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void look(void) {
	const char *path = getenv("PAWL_CLOCK");
	int fd = path ? open(path, O_RDONLY) : -1;
	if (fd < 0) return;
	void *at = mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (at != MAP_FAILED) offset = at;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	int r = syscall(SYS_clock_gettime, id, ts);
	if (r == 0 && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t us = (int64_t)ts->tv_sec * 1000000 + ts->tv_nsec / 1000 + *offset;
		ts->tv_sec = us / 1000000;
		ts->tv_nsec = us % 1000000 * 1000;
	}
	return r;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
	struct timespec ts;
	(void)tz;
	if (clock_gettime(CLOCK_REALTIME, &ts)) return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *at) {
	struct timespec ts;
	if (clock_gettime(CLOCK_REALTIME, &ts)) return -1;
	if (at) *at = ts.tv_sec;
	return ts.tv_sec;
}
