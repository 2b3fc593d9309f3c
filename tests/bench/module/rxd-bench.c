// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/rxd-bench: time bios, submitted in the kernel and awaited one by one.
 *
 * Write one line of KEY=VALUE words; the write returns when the job is done. Then
 * read one line for each thread:
 *
 *	threads=1 thread=0 bios=N ns=N batch=N typical=N longest=N
 *
 * These are the number of completed bios, their total time, the number of bios in a batch,
 * which is timed as a whole, and the median and the longest time of a batch. On a busy
 * machine, use the median: it does not change if a few batches are interrupted. Keys:
 *
 *	op	read, write, or discard. Three others do not use a device:
 *
 *		touch writes to all free memory once and frees it.
 *
 *		take allocates pages with GFP_KERNEL, and frees them: first "offset" bytes,
 *		and then "span" bytes, which are timed. It answers
 *
 *			pages=N ns=N
 *
 *		copies measures memcpy(), memset() and clear_page() of the kernel, on a page
 *		in the processor's cache, and the instruction that each is on a processor
 *		with the flag for it. It answers
 *
 *			memcpy=PS fsrm=PS memset=PS fsrs=PS clear_page=PS erms=PS
 *
 *		in picoseconds, without the instructions whose flag the processor lacks
 *	dev	path of the block device; or memcpy or move: a read or a write then
 *		copies, by memcpy() or by "rep movsb", from or to random pages of plain
 *		memory, as much as the span
 *	size	bytes of a bio: a multiple of the page size up to 1M, for a discard
 *		any multiple of 512
 *	offset	start of the range on the device, default 0
 *	span	length of the range
 *	step	distance between the places of bios, at least the size, which is the default
 *	order	random (default); sequential, which starts again at the end; or once
 *	ms	duration in milliseconds, unless order=once
 *	threads	number of threads, each on a CPU of its own, default 1
 *	cpu	the first of these CPUs, default 0
 *	buffer	pages (default): single pages, a segment each; whole: one segment
 *	watch	1: read the clock after each bio, so that "longest" is for one bio
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#ifdef __x86_64__
#include <asm/cpufeature.h>
#endif

#define LINE_MAX	256
#define RESULT_MAX	1024
#define THREADS_MAX	8
#define SIZE_MAX_DATA	((u64)BIO_MAX_VECS << PAGE_SHIFT)
/* Size of a batch in bytes, and its maximum number of bios. */
#define BATCH_BYTES	SZ_256K
#define BATCH_MAX	64
/* Batches whose times are recorded; the others only count in the total. */
#define TIMES_MAX	16384
/* Free memory that a touch does not allocate. */
#define TOUCH_MARGIN	(SZ_64M >> PAGE_SHIFT)
/* Copies in a batch, and number of batches. */
#define COPIES_BATCH	1000
#define COPIES_ROUNDS	2000

enum bench_op {
	BENCH_READ, BENCH_WRITE, BENCH_DISCARD, BENCH_TOUCH, BENCH_TAKE, BENCH_COPIES
};

enum bench_order { BENCH_RANDOM, BENCH_SEQUENTIAL, BENCH_ONCE };

static const char * const op_names[] = {
	"read", "write", "discard", "touch", "take", "copies", NULL
};

static const char * const order_names[] = { "random", "sequential", "once", NULL };
static const char * const buffer_names[] = { "pages", "whole", NULL };

struct bench_job {
	char *dev;
	u64 op;
	u64 size;
	u64 offset;
	u64 span;
	u64 step;
	u64 order;
	u64 ms;
	u64 threads;
	u64 cpu;
	u64 buffer;
	u64 watch;
	struct block_device *bdev;
	struct page **memory;
	bool move;
	struct completion go;
	bool given_up;
};

struct bench_worker {
	struct bench_job *job;
	struct task_struct *task;
	struct completion done;
	struct bio bio;
	struct bio_vec *table;
	unsigned int nr_vecs;
	u64 seed;
	u64 next;
	u64 bios;
	u64 ns;
	u64 longest;
	u32 *times;
	unsigned int nr_times;
	unsigned int batch;
	u32 typical;
	int ret;
};

static int parse_number(const char *value, u64 *number)
{
	char *end;

	*number = memparse(value, &end);
	return end == value || *end ? -EINVAL : 0;
}

static int parse_word(struct bench_job *job, char *key, char *value)
{
	const struct {
		const char *key;
		u64 *number;
		const char * const *names;
	} keys[] = {
		{ "op", &job->op, op_names },
		{ "size", &job->size },
		{ "offset", &job->offset },
		{ "span", &job->span },
		{ "step", &job->step },
		{ "order", &job->order, order_names },
		{ "ms", &job->ms },
		{ "threads", &job->threads },
		{ "cpu", &job->cpu },
		{ "buffer", &job->buffer, buffer_names },
		{ "watch", &job->watch },
	};
	unsigned int i;
	int ret;

	if (!strcmp(key, "dev")) {
		job->dev = value;
		return 0;
	}
	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(key, keys[i].key))
			continue;
		if (!keys[i].names)
			return parse_number(value, keys[i].number);
		ret = match_string(keys[i].names, -1, value);
		*keys[i].number = ret;
		return ret < 0 ? ret : 0;
	}
	return -EINVAL;
}

static int parse_line(struct bench_job *job, char *line)
{
	char *word, *value;

	while ((word = strsep(&line, "\n "))) {
		if (!*word)
			continue;
		value = strchr(word, '=');
		if (value)
			*value++ = 0;
		if (!value || parse_word(job, word, value)) {
			pr_err("rxd-bench: '%s' '%s': not understood\n", word, value ?: "");
			return -EINVAL;
		}
	}
	return 0;
}

static int check_job(struct bench_job *job)
{
	bool data = job->op != BENCH_DISCARD;
	const char *wrong = NULL;

	if (!job->dev)
		wrong = "dev is missing";
	else if (!job->size || !IS_ALIGNED(job->size, data ? PAGE_SIZE : SECTOR_SIZE))
		wrong = "size is no multiple of the page size or the sector";
	else if (data && job->size > SIZE_MAX_DATA)
		wrong = "size is too large";
	else if (job->span < job->size)
		wrong = "span is less than size";
	else if (job->step < job->size || !IS_ALIGNED(job->step, SECTOR_SIZE))
		wrong = "step is less than size, or no multiple of the sector";
	else if (!job->ms && job->order != BENCH_ONCE)
		wrong = "ms is missing";
	else if (!job->threads || job->threads > THREADS_MAX)
		wrong = "threads is 0 or too large";
	if (!wrong)
		return 0;
	pr_err("rxd-bench: %s\n", wrong);
	return -EINVAL;
}

static void free_buffer(struct bench_worker *w)
{
	unsigned int i;

	kvfree(w->times);
	for (i = 0; i < w->nr_vecs; i++)
		__free_pages(w->table[i].bv_page, get_order(w->table[i].bv_len));
	kfree(w->table);
}

static int alloc_buffer(struct bench_worker *w)
{
	unsigned int len = w->job->buffer ? w->job->size : PAGE_SIZE;
	unsigned int nr = w->job->size / len;
	struct page *page;

	w->table = kcalloc(nr, sizeof(*w->table), GFP_KERNEL);
	if (!w->table)
		return -ENOMEM;
	while (w->nr_vecs < nr) {
		page = alloc_pages(GFP_KERNEL, get_order(len));
		if (!page)
			return -ENOMEM;
		get_random_bytes(page_address(page), len);
		w->table[w->nr_vecs].bv_page = page;
		w->table[w->nr_vecs].bv_len = len;
		w->nr_vecs++;
	}
	bio_init(&w->bio, w->job->bdev, w->table, nr, REQ_OP_READ);
	return 0;
}

/* The number of the place of the next bio. */
static u64 next_place(struct bench_worker *w, u64 places)
{
	if (w->job->order == BENCH_RANDOM) {
		w->seed ^= w->seed << 13;
		w->seed ^= w->seed >> 7;
		w->seed ^= w->seed << 17;
		return ((w->seed >> 32) * places) >> 32;
	}
	if (w->next == places)
		w->next = 0;
	return w->next++;
}

static void move_bytes(void *to, const void *from, unsigned long len)
{
#ifdef __x86_64__
	asm volatile("rep movsb" : "+D" (to), "+S" (from), "+c" (len) : : "memory");
#else
	memcpy(to, from, len);
#endif
}

static void copy_one(struct bench_worker *w, struct page **memory)
{
	void *buffer, *data;
	unsigned int i, len;

	for (i = 0; i < w->nr_vecs; i++) {
		buffer = page_address(w->table[i].bv_page);
		/* Not PAGE_SIZE, because the compiler would inline a copy of constant length. */
		len = w->table[i].bv_len;
		data = page_address(memory[i]);
		if (w->job->op == BENCH_WRITE)
			swap(buffer, data);
		if (w->job->move)
			move_bytes(buffer, data, len);
		else
			memcpy(buffer, data, len);
	}
}

static int do_one(struct bench_worker *w, u64 places)
{
	struct bench_job *job = w->job;
	u64 pos = job->offset + next_place(w, places) * job->step;
	sector_t sector = pos >> SECTOR_SHIFT;
	struct bio *bio = &w->bio;

	if (job->memory) {
		copy_one(w, job->memory + (pos >> PAGE_SHIFT));
		return 0;
	}

	if (job->op == BENCH_DISCARD)
		return blkdev_issue_discard(job->bdev, sector, job->size >> SECTOR_SHIFT,
					    GFP_KERNEL);

	bio_reset(bio, job->bdev, job->op == BENCH_WRITE ? REQ_OP_WRITE : REQ_OP_READ);
	bio->bi_vcnt = w->nr_vecs;
	bio->bi_iter.bi_size = job->size;
	bio->bi_iter.bi_sector = sector;
	return submit_bio_wait(bio);
}

static int compare_times(const void *a, const void *b)
{
	u32 first = *(const u32 *)a, second = *(const u32 *)b;

	return first < second ? -1 : first > second;
}

static void count_batch(struct bench_worker *w, u64 ns)
{
	w->bios += w->batch;
	w->longest = max(w->longest, ns);
	if (w->nr_times < TIMES_MAX)
		w->times[w->nr_times++] = min_t(u64, ns, U32_MAX);
}

static int do_all(struct bench_worker *w)
{
	struct bench_job *job = w->job;
	bool once = job->order == BENCH_ONCE;
	u64 places = div64_u64(job->span - job->size, job->step) + 1;
	u64 begin, last, now;
	unsigned int i;
	int ret;

	w->batch = 1;
	if (!job->watch && !once)
		w->batch = clamp_t(u64, BATCH_BYTES / job->size, 1, BATCH_MAX);

	begin = ktime_get_ns();
	last = begin;
	do {
		for (i = 0; i < w->batch; i++) {
			ret = do_one(w, places);
			if (ret)
				return ret;
		}
		now = ktime_get_ns();
		count_batch(w, now - last);
		last = now;
		cond_resched();
	} while (once ? w->bios < places : now - begin < job->ms * NSEC_PER_MSEC);
	w->ns = now - begin;
	sort(w->times, w->nr_times, sizeof(*w->times), compare_times, NULL);
	w->typical = w->times[w->nr_times / 2];
	return 0;
}

static int worker_thread(void *data)
{
	struct bench_worker *w = data;

	wait_for_completion(&w->job->go);
	if (!w->job->given_up)
		w->ret = do_all(w);
	kthread_complete_and_exit(&w->done, 0);
}

static int start_worker(struct bench_worker *w, unsigned int cpu)
{
	int ret;

	if (cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -ENXIO;
	w->times = kvmalloc_array(TIMES_MAX, sizeof(*w->times), GFP_KERNEL);
	if (!w->times)
		return -ENOMEM;
	if (w->job->op != BENCH_DISCARD) {
		ret = alloc_buffer(w);
		if (ret)
			return ret;
	}
	/* Xorshift never leaves zero. */
	w->seed = get_random_u64() | 1;
	init_completion(&w->done);
	w->task = kthread_create(worker_thread, w, "rxd-bench/%u", cpu);
	if (IS_ERR(w->task))
		return PTR_ERR(w->task);
	kthread_bind(w->task, cpu);
	wake_up_process(w->task);
	return 0;
}

static int run_workers(struct bench_job *job, struct bench_worker *workers)
{
	unsigned int started, i;
	int ret = 0;

	init_completion(&job->go);
	for (started = 0; started < job->threads; started++) {
		workers[started].job = job;
		ret = start_worker(&workers[started], job->cpu + started);
		if (ret)
			break;
	}
	job->given_up = ret;
	complete_all(&job->go);
	for (i = 0; i < started; i++) {
		wait_for_completion(&workers[i].done);
		ret = ret ?: workers[i].ret;
	}
	for (i = 0; i < job->threads; i++) {
		if (workers[i].table)
			bio_uninit(&workers[i].bio);
		free_buffer(&workers[i]);
	}
	return ret;
}

static void free_memory(struct bench_job *job)
{
	unsigned long i;

	if (!job->memory)
		return;
	for (i = 0; i < job->span >> PAGE_SHIFT; i++)
		if (job->memory[i])
			__free_page(job->memory[i]);
	vfree(job->memory);
}

static int alloc_memory(struct bench_job *job)
{
	unsigned long i;

	if (job->op > BENCH_WRITE || job->buffer || job->offset)
		return -EINVAL;
	job->memory = vcalloc(job->span >> PAGE_SHIFT, sizeof(*job->memory));
	if (!job->memory)
		return -ENOMEM;
	for (i = 0; i < job->span >> PAGE_SHIFT; i++) {
		job->memory[i] = alloc_page(GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
		if (!job->memory[i])
			return -ENOMEM;
		memset(page_address(job->memory[i]), 1, PAGE_SIZE);
		cond_resched();
	}
	return 0;
}

static void free_taken(struct list_head *pages)
{
	struct page *page, *next;

	list_for_each_entry_safe(page, next, pages, lru) {
		list_del(&page->lru);
		__free_page(page);
		cond_resched();
	}
}

/* The host of a guest allocates memory at the first access, which takes long. */
static int touch_memory(void)
{
	struct page *page;
	LIST_HEAD(pages);

	while (si_mem_available() > TOUCH_MARGIN) {
		page = alloc_page(GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
		if (!page)
			break;
		memset(page_address(page), 1, PAGE_SIZE);
		list_add(&page->lru, &pages);
		cond_resched();
	}
	free_taken(&pages);
	return 0;
}

static int take_pages(u64 nr, struct list_head *pages)
{
	struct page *page;

	while (nr--) {
		page = alloc_page(GFP_KERNEL);
		if (!page)
			return -ENOMEM;
		list_add(&page->lru, pages);
		cond_resched();
	}
	return 0;
}

/* Take memory as a driver does: reclaim has to find it. */
static int take_memory(const struct bench_job *job, char *result)
{
	u64 nr = job->span >> PAGE_SHIFT;
	LIST_HEAD(pages);
	u64 begin;
	int ret;

	ret = take_pages(job->offset >> PAGE_SHIFT, &pages);
	begin = ktime_get_ns();
	if (!ret)
		ret = take_pages(nr, &pages);
	if (!ret)
		scnprintf(result, RESULT_MAX, "pages=%llu ns=%llu\n", nr, ktime_get_ns() - begin);
	free_taken(&pages);
	return ret;
}

#ifdef __x86_64__
static void call_memcpy(void *to, const void *from, unsigned long len)
{
	memcpy(to, from, len);
}

static void call_memset(void *to, const void *from, unsigned long len)
{
	memset(to, 0, len);
}

static void call_clear_page(void *to, const void *from, unsigned long len)
{
	clear_page(to);
}

static void zero_bytes(void *to, const void *from, unsigned long len)
{
	asm volatile("rep stosb" : "+D" (to), "+c" (len) : "a" (0) : "memory");
}

typedef void (*copy_fn)(void *to, const void *from, unsigned long len);

static u64 time_batch(copy_fn copy, void *to, const void *from, unsigned long len)
{
	u64 begin = ktime_get_ns();
	unsigned int i;

	for (i = 0; i < COPIES_BATCH; i++)
		copy(to, from, len);
	return ktime_get_ns() - begin;
}

/* Time of a copy in picoseconds, in the fastest of many batches of each kind in turn. */
static void time_copies(const copy_fn copies[2], u64 times[2], void *to, const void *from,
			unsigned long len)
{
	u64 best[2] = { U64_MAX, U64_MAX };
	unsigned int round;

	for (round = 0; round < COPIES_ROUNDS; round++) {
		best[round % 2] = min(best[round % 2],
				      time_batch(copies[round % 2], to, from, len));
		cond_resched();
	}
	times[0] = div_u64(best[0] * 1000, COPIES_BATCH);
	times[1] = div_u64(best[1] * 1000, COPIES_BATCH);
}

/* Measure the copies of this kernel, and the instructions for processors with the flags. */
static int compare_copies(char *result)
{
	void *to = (void *)__get_free_page(GFP_KERNEL);
	void *from = (void *)__get_free_page(GFP_KERNEL);
	const struct {
		const char *name, *flag;
		unsigned int feature;
		copy_fn copies[2];
	} pairs[] = {
		{ "memcpy", "fsrm", X86_FEATURE_FSRM, { call_memcpy, move_bytes } },
		{ "memset", "fsrs", X86_FEATURE_FSRS, { call_memset, zero_bytes } },
		{ "clear_page", "erms", X86_FEATURE_ERMS, { call_clear_page, zero_bytes } },
	};
	unsigned long len = PAGE_SIZE;
	unsigned int i;
	u64 times[2];
	int at = 0;

	/* Hide the length, because the compiler would inline a copy of constant length. */
	OPTIMIZER_HIDE_VAR(len);
	for (i = 0; to && from && i < ARRAY_SIZE(pairs); i++) {
		if (!boot_cpu_has(pairs[i].feature))
			continue;
		time_copies(pairs[i].copies, times, to, from, len);
		at += scnprintf(result + at, RESULT_MAX - at, "%s%s=%llu %s=%llu",
				at ? " " : "", pairs[i].name, times[0], pairs[i].flag, times[1]);
	}
	scnprintf(result + at, RESULT_MAX - at, "\n");
	free_page((unsigned long)to);
	free_page((unsigned long)from);
	return to && from ? 0 : -ENOMEM;
}
#else
static int compare_copies(char *result)
{
	strscpy(result, "\n", RESULT_MAX);
	return 0;
}
#endif

/* Return: the file that keeps the device open, or an ERR_PTR. */
static struct file *open_device(struct bench_job *job)
{
	struct file *file;
	int ret;

	file = filp_open(job->dev, O_RDWR | O_LARGEFILE, 0);
	if (IS_ERR(file))
		return file;
	ret = -ENOTBLK;
	if (!S_ISBLK(file_inode(file)->i_mode))
		goto out_close;
	job->bdev = I_BDEV(file->f_mapping->host);
	ret = -EINVAL;
	if (job->offset + job->span > bdev_nr_bytes(job->bdev))
		goto out_close;
	return file;

out_close:
	filp_close(file, NULL);
	return ERR_PTR(ret);
}

static int run_job(struct bench_job *job, char *result)
{
	struct bench_worker *workers;
	struct file *file = NULL;
	unsigned int i;
	int len = 0;
	int ret;

	if (!job->step)
		job->step = job->size;
	ret = check_job(job);
	if (ret)
		return ret;
	workers = kcalloc(job->threads, sizeof(*workers), GFP_KERNEL);
	if (!workers)
		return -ENOMEM;
	job->move = !strcmp(job->dev, "move");
	if (job->move || !strcmp(job->dev, "memcpy")) {
		ret = alloc_memory(job);
	} else {
		file = open_device(job);
		ret = PTR_ERR_OR_ZERO(file);
	}
	if (ret)
		goto out_free;

	ret = run_workers(job, workers);
	for (i = 0; i < job->threads && !ret; i++)
		len += scnprintf(result + len, RESULT_MAX - len,
				 "threads=%llu thread=%u bios=%llu ns=%llu batch=%u typical=%u longest=%llu\n",
				 job->threads, i, workers[i].bios, workers[i].ns, workers[i].batch,
				 workers[i].typical, workers[i].longest);
	if (file)
		filp_close(file, NULL);
out_free:
	if (ret)
		pr_err("rxd-bench: %s: error %d\n", job->dev, ret);
	free_memory(job);
	kfree(workers);
	return ret;
}

static ssize_t bench_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	struct bench_job job = { .threads = 1 };
	char *result = file->private_data;
	char *line;
	int ret;

	if (len >= LINE_MAX)
		return -EINVAL;
	line = memdup_user_nul(from, len);
	if (IS_ERR(line))
		return PTR_ERR(line);

	*result = 0;
	ret = parse_line(&job, line);
	if (!ret && job.op == BENCH_TOUCH)
		ret = touch_memory();
	else if (!ret && job.op == BENCH_TAKE)
		ret = take_memory(&job, result);
	else if (!ret && job.op == BENCH_COPIES)
		ret = compare_copies(result);
	else if (!ret)
		ret = run_job(&job, result);
	kfree(line);
	return ret ?: len;
}

static ssize_t bench_read(struct file *file, char __user *to, size_t len, loff_t *pos)
{
	char *result = file->private_data;
	size_t nr = min(len, strlen(result));

	if (copy_to_user(to, result, nr))
		return -EFAULT;
	memmove(result, result + nr, strlen(result + nr) + 1);
	return nr;
}

static int bench_open(struct inode *inode, struct file *file)
{
	file->private_data = kzalloc(RESULT_MAX, GFP_KERNEL);
	return file->private_data ? stream_open(inode, file) : -ENOMEM;
}

static int bench_release(struct inode *inode, struct file *file)
{
	kfree(file->private_data);
	return 0;
}

static const struct file_operations bench_fops = {
	.owner		= THIS_MODULE,
	.open		= bench_open,
	.release	= bench_release,
	.read		= bench_read,
	.write		= bench_write,
};

static struct miscdevice bench_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "rxd-bench",
	.fops	= &bench_fops,
	.mode	= 0600,
};

module_misc_device(bench_misc);

MODULE_DESCRIPTION("Times bios that are submitted in the kernel");
MODULE_LICENSE("GPL");
