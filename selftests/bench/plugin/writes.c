// SPDX-License-Identifier: GPL-2.0
/*
 * writes THREADS: the program that plugin/ is tested with. Threads, each on a CPU of its own, write
 * to memory as often as this says, while the plugin's window is open; it then prints what a correct
 * plugin has counted, a line of memory a line of text:
 *
 *	NAME ADDRESS COUNT...	by each thread; none at all for a line that one thread wrote
 *	hold INSTRUCTIONS COUNT	how often the first thread holds the watched lock so long
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE 64
#define MAX_THREADS 64

/* One instruction each, whatever the compiler thinks. */
static inline void store(void *p)
{
	asm volatile("movq %0, (%1)" : : "r"(1UL), "r"(p) : "memory");
}

static inline void store_byte(void *p)
{
	asm volatile("movb $1, (%0)" : : "r"(p) : "memory");
}

static inline void atomic(void *p)
{
	asm volatile("lock incq (%0)" : : "r"(p) : "memory");
}

static inline void exchange(void *p)
{
	unsigned long one = 1;

	asm volatile("xchgq %0, (%1)" : "+r"(one) : "r"(p) : "memory");
}

static inline void load(void *p)
{
	asm volatile("movq (%0), %%rax" : : "r"(p) : "rax", "memory");
}

static inline void watch(void *lock)
{
	unsigned long where;

	asm volatile("movq %0, %%rdi\n\t"
		     "leaq -0x5a666e03(%1), %%rsi\n\t"
		     ".byte 0x48, 0x89, 0xbe, 3, 'n', 'f', 'Z'" : : "r"(lock), "r"(&where)
		     : "rdi", "rsi", "memory");
}

/* As the kernel's spinlocks: taken by an exchange, and held for 4 instructions. */
static inline void hold_4(void *lock)
{
	asm volatile("xorl %%eax, %%eax\n\t"
		     "movl $1, %%ecx\n\t"
		     "lock cmpxchgl %%ecx, (%0)\n\t"
		     "nop\n\tnop\n\tnop\n\t"
		     "movb $0, (%0)" : : "r"(lock) : "eax", "ecx", "memory");
}

/* Held while blocks of instructions end and begin: one, five times two, one. */
static inline void hold_12(void *lock)
{
	asm volatile("xorl %%eax, %%eax\n\t"
		     "movl $1, %%ecx\n\t"
		     "lock cmpxchgl %%ecx, (%0)\n\t"
		     "movl $5, %%ecx\n\t"
		     "1: decl %%ecx\n\t"
		     "jnz 1b\n\t"
		     "movb $0, (%0)" : : "r"(lock) : "eax", "ecx", "memory");
}

/* As after a wait: written before, taken by a store of a byte, held for 3. */
static inline void hold_3(void *lock)
{
	asm volatile("lock btsl $8, (%0)\n\t"
		     "nop\n\t"
		     "movw $1, (%0)\n\t"
		     "nop\n\t"
		     "movb $1, (%0)\n\t"
		     "nop\n\tnop\n\t"
		     "movb $0, (%0)" : : "r"(lock) : "memory");
}

static inline void open_window(void)
{
	asm volatile(".byte 0x0f, 0x1f, 0x80, 1, 'n', 'f', 'Z'" : : : "memory");
}

static inline void close_window(void)
{
	asm volatile(".byte 0x0f, 0x1f, 0x80, 2, 'n', 'f', 'Z'" : : : "memory");
}

enum { ATOMIC_LINE, MIXED_LINE, NEIGHBOURS, TWICE_MAPPED, CROSSED, FIRST_ONLY, READ_ONLY, LINES };
static const char *const names[LINES] = {
	"atomic", "mixed", "neighbours", "twice-mapped", "crossed", "first-only", "read-only",
};

/* Lines that all know, and a second mapping of the same memory. CROSSED has the next one, too. */
static char *shared, *again;
/* A page for each thread. */
static char *own;
static long page, threads;
static int ready[MAX_THREADS][LINE], done[MAX_THREADS][LINE], go;

static void set(int *flag)
{
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

static int is_set(int *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static char *line(char *base, int number)
{
	return base + 2 * LINE * number;
}

/* Different for each thread, so that they cannot be mixed up. */
static int rounds(long number)
{
	return 1000 + 100 * number;
}

static void *work(void *argument)
{
	long number = (long)argument;
	char *mapped = line(number % 2 ? again : shared, TWICE_MAPPED);
	cpu_set_t cpu;
	int i;

	CPU_ZERO(&cpu);
	CPU_SET(number, &cpu);
	if (sched_setaffinity(0, sizeof(cpu), &cpu))
		exit(2);
	set(ready[number]);
	while (!is_set(&go))
		;
	for (i = 0; i < rounds(number); i++) {
		atomic(line(shared, ATOMIC_LINE));
		store(line(shared, MIXED_LINE));
		exchange(line(shared, MIXED_LINE) + 8);
		store_byte(line(shared, NEIGHBOURS) + number);
		store(mapped);
		store(line(shared, CROSSED) + LINE - 4);
		if (!number)
			store(line(shared, FIRST_ONLY));
		load(line(shared, READ_ONLY));
		load(line(shared, FIRST_ONLY));
		store(own + page * number);
		atomic(own + page * number + 8);
		/* Only the first one's is watched. */
		hold_4(own + page * number + LINE);
		hold_12(own + page * number + LINE);
		hold_3(own + page * number + LINE);
		hold_4(own + page * number + 2 * LINE);
	}
	set(done[number]);
	return NULL;
}

static void expect(const char *name, char *address, int each)
{
	long i;

	printf("%s %lx", name, (unsigned long)address);
	for (i = 0; each && i < threads; i++)
		printf(" %d", each * rounds(i));
	printf("\n");
}

int main(int argc, char **argv)
{
	static const int each[LINES] = { 1, 2, 1, 1, 1, 0, 0 };
	pthread_t thread[MAX_THREADS];
	int fd, i;

	threads = argc == 2 ? atol(argv[1]) : 0;
	if (threads < 1 || threads > sysconf(_SC_NPROCESSORS_ONLN) || threads > MAX_THREADS)
		return 2;
	page = sysconf(_SC_PAGESIZE);
	fd = memfd_create("writes", 0);
	if (fd < 0 || ftruncate(fd, page))
		return 2;
	shared = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	again = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	own = mmap(NULL, page * threads, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (shared == MAP_FAILED || again == MAP_FAILED || own == MAP_FAILED ||
	    mlockall(MCL_CURRENT))
		return 2;

	for (i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)(long)i))
			return 2;
	for (i = 0; i < threads; i++)
		while (!is_set(ready[i]))
			sched_yield();
	watch(own + LINE);
	open_window();
	set(&go);
	for (i = 0; i < threads; i++)
		while (!is_set(done[i]))
			sched_yield();
	close_window();

	for (i = 0; i < LINES; i++)
		expect(names[i], line(shared, i), each[i]);
	expect("crossed-into", line(shared, CROSSED) + LINE, 1);
	for (i = 0; i < threads; i++)
		expect("own", own + page * i, 0);
	printf("hold 3 %d\nhold 4 %d\nhold 12 %d\n", rounds(0), rounds(0), rounds(0));
	return 0;
}
