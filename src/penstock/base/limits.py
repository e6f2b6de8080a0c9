"""Every limit of the system, with its reason."""

from __future__ import annotations

# A watch that nobody reads must not eat the flow's memory: it fails instead.
WATCH_QUEUE_EPOCHS_MAX = 10_000
WATCH_QUEUE_ROWS_MAX = 1_000_000

# Sorted batches of up to this many rows are merged at once on append: below it numpy's fixed
# cost per call, not the data, is the price.
SMALL_BATCH_ROWS_MAX = 256

# Up to this many rows are inserted into a small batch one by one: fewer calls than a merge.
INSERT_ROWS_MAX = 4

# Deltas of up to this many rows are hashed, grouped and added up in Python integers: an array of one number
# costs what one of a thousand costs.
FEW_ROWS_MAX = 4

# How often one row of a delta may come or go. Weights are added up and multiplied in 64 bits: two of this size can be,
# and what is larger is a mistake (another column under that name) whose counts would not fit a BIGINT.
WEIGHT_MAX = 2**31 - 1

# How often one row of a join may be there: weights multiply in it, and a thousand like this still add up in 64 bits.
JOINED_WEIGHT_MAX = 2**53

# A row that matches at most this many rows of a batch is joined with them one by one.
FEW_MATCHES_MAX = 8

# Groups that a few rows changed are gathered in a dict until they are this many, and then become a batch: often
# enough that no tick pays much for it. In reports each counts for about what it takes in memory.
YOUNG_GROUPS_MAX = 256
YOUNG_GROUP_BYTES = 64

# Groups of an arrangement whose measures are remembered, so that the next change need not look them up.
KNOWN_GROUPS_MAX = 4_096

# Epochs that have left a note for the meter and are not in its figures yet: those who look count them.
UNCOUNTED_EPOCHS_MAX = 256

# What is appended is merged at once only if it has at most this many rows: a merge costs the same for one row as
# for fifty, so of fifty a few are gathered first.
SMALL_APPEND_ROWS_MAX = 16

# This many batches of like size are merged in one go, up to this many rows: each row is then merged
# a third as often as in pairs, for a few batches more to look into.
MERGE_AT_ONCE_BATCHES_MIN = 8
MERGE_AT_ONCE_ROWS_MAX = 8_192

# Larger merges: rows merged for each appended row (at least MERGE_ROWS_MIN a tick): enough that merging always
# keeps up with appending, little enough that no tick pays for a whole merge.
MERGE_ROWS_PER_APPENDED_ROW = 16
MERGE_ROWS_MIN = 2_048

# Strings longer than this are hashed by blake2b, shorter ones eight bytes at a time.
HASH_WORDS_BYTES_MAX = 64

# A group with at most this many rows is recomputed together with others in one vectorised pass;
# a larger one is walked from its old end instead.
SMALL_GROUP_ROWS_MAX = 64

# SUM and AVG on floats keep 32-bit limbs in 64-bit integers: this many rows fit without a carry.
FLOAT_SUM_ROWS_MAX = 2**31 - 1

# Rows of a view or table printed in an error message.
ERROR_ROWS_MAX = 3

# Pairs of rows that a join with a condition other than equality looks at in one go.
JOIN_PAIRS_MAX = 4_000_000

# A view's log of deltas is sorted into its state after this many deltas or rows: often enough that
# reading stays cheap, seldom enough that a one-row tick does not feel it.
LOG_DELTAS_MAX = 1_024
LOG_ROWS_MAX = 16_384

# Relations that one statement may read as of an epoch or a time: each is worked out whole.
AS_OF_MAX = 50

# A value in an error message is cut after this many characters.
ERROR_VALUE_LENGTH_MAX = 60

# An UPDATE or DELETE whose WHERE names at most this many keys (=, IN, OR, or a range of whole numbers) looks them up;
# one with more scans.
POINT_KEYS_MAX = 10_000

# Rows of a table that are looked at to estimate how many different values its columns have.
SAMPLE_ROWS_MAX = 50_000

# A file has a checksum for each block of this size: small enough that checking one is a fraction of a
# millisecond, large enough that the checksums of a file of a gigabyte are 8 KB. It is a part of the format:
# a flow that was written with another size cannot be read.
CHECKSUM_BLOCK_BYTES = 1 << 20

# A call to storage that takes longer than this has failed, and its outcome is not known.
STORAGE_CALL_SECONDS_MAX = 120

# After this long without an answer from the database the storage itself is asked what is wrong.
STORAGE_ASK_AFTER_SECONDS = 5

# Rows of the database fetched at a time.
SCAN_ROWS_MAX = 512

# How often a reader looks for a newer epoch.
READER_POLL_MS = 100

# How often SlateDB removes its own files that nothing needs, and how old such a file must be.
TRUTH_COLLECT_SECONDS = 60

# What is larger than this is a file; what is smaller stands in the database, through whose binding bytes
# pass at about 5 MB a second.
CHUNK_BYTES_MAX = 32_768

# Deltas that wait to be written. Beyond it a tick waits until storage has caught up.
JOURNAL_BYTES_MAX = 256 << 20

# State is written down when running the epochs since the last time again would take about this long, or
# there are so many of them: that is what a restart after a crash has to do.
FLUSH_REPLAY_SECONDS_MAX = 0.5
FLUSH_EPOCHS_MAX = 2_000
FLUSH_ROWS_MAX = 200_000

# Keys that ticks came with, kept to recognise the same tick again.
IDEMPOTENCY_KEYS_MAX = 100_000
IDEMPOTENCY_KEY_BYTES_MAX = 512

# A file that nothing names any more is deleted this much later: a reader may just be opening it.
COLLECT_AFTER_SECONDS = 30

# Groups of epochs forgotten at a time.
TRIM_GROUPS_MAX = 5_000

# A file whose writing ended in doubt is written again under another name, this often.
PUT_ATTEMPTS_MAX = 3

# How often a reader begins anew when the writer's manifest moves on while it is being read.
READER_LOAD_ATTEMPTS_MAX = 20

# Requests to remote storage are tried again for this long in all: long enough for a burst of throttling,
# short enough that a caller learns of an outage while it still waits.
STORAGE_RETRY_S_MAX = 60.0

# Waits between two tries grow from the first to the second of these, with jitter, so that many clients
# that were throttled together do not come back together.
STORAGE_BACKOFF_S_MIN = 0.05
STORAGE_BACKOFF_S_MAX = 5.0

# Files beyond this size are uploaded in parts of the second size: one request would have to succeed whole.
STORAGE_MULTIPART_BYTES_MIN = 64 * 1024 * 1024
STORAGE_PART_BYTES = 16 * 1024 * 1024

# Objects named in one delete request: what S3 takes at once.
STORAGE_DELETE_NAMES_MAX = 1_000

# A temporary file that a killed process left behind is removed when it is older than this: no put lasts
# as long.
STORAGE_LEFTOVER_S_MIN = 3_600.0

# Local copies of remote files, for each process, unless the flow says otherwise.
CACHE_BYTES_MAX = 16 * 1024**3

# Processes on one machine that read the same remote flow have a cache folder each, up to this many.
CACHE_FOLDERS_MAX = 64

# Bytes read at once when a file is checksummed or copied: beyond a megabyte nothing gets faster.
STORAGE_CHUNK_BYTES = 1024 * 1024

# Characters of a storage library's own message that are shown in ours.
STORAGE_DETAIL_LENGTH_MAX = 300

# With a memory limit, arrays and files larger than this are made on disk.
SCRATCH_BYTES_MIN = 1 << 20

# With a memory limit: the share of it that state which is not yet on disk may take before it is written
# down, and the share at which a tick waits for that.
UNWRITTEN_SHARE_MAX = 0.25
UNWRITTEN_SHARE_WAIT = 0.5

# `verify` compares floats to this many digits: our sums are exact, DuckDB's are rounded at every addition
# (it loses about six digits over 10 M rows of like size).
VERIFY_RELATIVE_TOLERANCE = 1e-9
VERIFY_RELATIVE_TOLERANCE_FLOAT32 = 1e-6  # REAL has seven digits

# Where terms cancel the rounding is as large as they were, whatever is left: this, of the largest float
# among them, is taken for rounding as well.
VERIFY_ABSOLUTE_TOLERANCE = 1e-12

# Rows with floats that `verify` pairs off one by one, when sorting has not brought them together.
VERIFY_PAIRED_ROWS_MAX = 10_000

# Rows that `verify` shows of what is missing and of what is too much, unless told otherwise.
VERIFY_ROWS_SHOWN = 20

# A view that differs and has a LIMIT inside it is computed over this many orders of the tables' rows, to see
# whether its query has one answer: each shows a tie with a probability of a half and more.
VERIFY_SHUFFLES = 8

# On storage: runs smaller than this are left alone until there are so many of them; larger ones are put
# together when so many of like size have gathered. Each row is then written again about once for every
# fourfold growth of the state beyond the small runs.
SMALL_RUN_ROWS_MAX = 16_384
SMALL_RUNS_MAX = 24
RUNS_OF_LIKE_SIZE_MAX = 4

# Rows put together at a time, so that a tick never waits for a whole compaction.
COMPACT_SLICE_ROWS = 65_536

# From this many sorted hashes on, when this many are looked for, their places are guessed instead of searched for.
GUESSED_HASHES_MIN = 2_000_000
GUESSED_NEEDLES_MIN = 128

# A delta of up to this many rows has the chunks of all its columns joined in one call; larger ones column by
# column, so that there is never a second copy of all of it.
COMBINED_ROWS_MAX = 65_536

# Queries of which a session remembers the relations.
REMEMBERED_QUERIES_MAX = 256

# A message of a Postgres client: rows and texts of this size are refused. Before it has said who it is, a client
# gets no more than Postgres gives it.
MESSAGE_BYTES_MAX = 256 << 20
STARTUP_BYTES_MAX = 10_000

# Of what a client has sent, this much is read ahead; then it has to wait.
READ_AHEAD_BYTES_MAX = 1 << 20

# What is taken from a socket at a time.
RECEIVE_BYTES = 128 << 10

# Clients of one server, and the statements of theirs that run at once; more wait their turn.
CONNECTIONS_MAX = 1_000
RUNNING_STATEMENTS_MAX = 32

# Clients that have not said yet who they are. One more, and the one that has waited longest is disconnected: so many
# connections that say nothing keep nobody out, and take neither memory nor file handles without end.
STRANGERS_MAX = 500

# A client that has not said who it is after this long is disconnected.
LOGIN_SECONDS_MAX = 30

# Prepared statements and portals that one client may have.
PREPARED_MAX = 10_000

# Rows of a result that are put into bytes at a time, fewer where they are wide, and the bytes that are then handed to the network: small
# enough that a slow reader costs little memory, large enough that the fixed cost of a step does not count.
ENCODE_ROWS_MAX = 16_384
ENCODE_BYTES_MAX = 4 << 20
SEND_BYTES = 64 << 10

# Rows that are taken from DuckDB at a time while a client takes them, and results of one client that can be half-way
# at the same time; further ones are worked out whole. Each has a connection to DuckDB.
STREAM_ROWS = 16_384
STREAMS_MAX = 16

# Below this many rows a plain loop is faster than the vectorised encoder.
PLAIN_ROWS_MAX = 32

# Rows that COPY FROM STDIN gathers before it turns them into a delta.
COPY_ROWS_MAX = 50_000

# Rounds of hashing of a SCRAM password: what Postgres takes.
SCRAM_ITERATIONS = 4_096

# A large batch is read as it is, with what changed laid around it, while the changes are at most this share of it
# and at most so many of its rows are gone: each of those cuts it in two.
VISIBLE_REST_SHARE_MAX = 0.25
VISIBLE_GONE_ROWS_MAX = 5_000

# The private PostgreSQL that answers catalog queries: the statements that it runs at once, how long each may take, what
# it may give, the memory (of addresses) of each of its processes, and how long it may take to start on a busy machine.
CATALOG_CONNECTIONS_MAX = 8
CATALOG_SECONDS_MAX = 30
CATALOG_ROWS_MAX = 500_000
CATALOG_BYTES_MAX = 128 << 20
CATALOG_MEMORY_BYTES_MAX = 1 << 30
CATALOG_START_SECONDS_MAX = 60

# -- epochs in several places: run/, run/spark/ ------------------------------------------------

# A packet's payload: large enough that a shuffle moves columns and not rows, small enough that several
# of them fit into a task's memory, and into what one row of Spark's may have (2 GB).
PACKET_BYTES_MAX = 16 * 2**20

# What a task gives is handed to the driver itself up to this size, and is a file beyond it.
RECEIPT_BYTES_MAX = 32 * 2**10

# State in the driver's memory travels with the program up to this size; more is written to files first.
SHIPPED_BYTES_MAX = 4 * 2**20

# Packets that the driver sends travel with the job up to this size, and as a DataFrame beyond it.
SENT_BYTES_MAX = 2**20

# Files that a task's process keeps mapped for the tasks after it.
TASK_BATCHES_OPEN_MAX = 1_000

# Where there is a Spark engine, runs of more rows than this are put together by it, and not by the driver.
MERGE_HERE_ROWS_MAX = 2_000_000

# An epoch is cut into one partition for so many changed rows; below it one task does everything.
PARTITION_ROWS = 50_000

# A key is hot if a delta of at least so many rows has it in more than half of a partition's share of them.
HOT_KEY_ROWS_MIN = 10_000

# The audit log: entries, how old they may get (30 days), and the bytes of one entry's detail. It is held in memory
# and read at every opening, so it is small: 10,000 entries are read in a tenth of a second.
AUDIT_ENTRIES_MAX = 10_000
AUDIT_SECONDS_MAX = 30 * 86_400
AUDIT_DETAIL_BYTES_MAX = 2_000

# Freshness is judged over this long, second by second; a target below the smallest would measure the clock.
FRESHNESS_WINDOW_SECONDS = 300
FRESHNESS_TARGET_SECONDS_MIN = 0.01

# A view that has met its target for this share of the window is healthy: one late epoch in a while is not news.
FRESHNESS_HEALTHY_SHARE = 0.99

# Changes that took longer than the smallest target to become visible, kept one by one; with more of them the window
# that is judged gets shorter, and says so.
LATE_CHANGES_MAX = 50_000

# Epochs that `penstock.epochs` shows.
EPOCHS_SHOWN_MAX = 10_000

# A change of more rows than this is a load: views that wait for it are being backfilled.
LOAD_ROWS_MIN = 200_000

# Of /metrics: clients at once, bytes of a request's head, and seconds that a request may take.
HTTP_CLIENTS_MAX = 64
HTTP_HEAD_BYTES_MAX = 16_384
HTTP_SECONDS_MAX = 10

# Rows of each table that EXPLAIN INCREMENTAL (ESTIMATE) tries: enough to meet keys with many matches, few enough that
# the flow is held up for some hundredths of a second.
ESTIMATE_ROWS = 50

# Epochs of fewer rows than this run inline without a thought: no job on a cluster is as quick.
AUTO_ROWS_MIN = 10_000

# Rows of a DataFrame that a task turns into packets at a time.
FRAME_ROWS_AT_ONCE = 500_000

# Tasks that read a DataFrame, for each core: one of more partitions is coalesced. So many that a slow task does not
# hold up the rest, and few enough that the table's state is not a heap of small files and that Python is not started
# 200 times for some rows: so many partitions has whatever Spark has shuffled, since adaptive execution is off.
SOURCE_TASKS_PER_CORE_MAX = 4

# Rows that a task hands to Spark at a time, when a DataFrame is read from a flow.
READ_ROWS_AT_ONCE = 100_000

# Rows of a snapshot for one partition of a DataFrame.
SNAPSHOT_PARTITION_ROWS = 1_000_000

# A partition that had more rows than so many, and more than so many times its share, is cut in two for the next
# epoch; at most until there are so many times the partitions that there were.
SPLIT_ROWS_MIN = 20_000
SPLIT_SHARE = 2.0
SPLIT_PARTITIONS_MAX = 4

# Subscriptions that one client may have open (its cursors over SUBSCRIBE): each may hold a full queue.
SUBSCRIPTIONS_MAX = 64

# Notifications that wait for one client, which is disconnected beyond it; the bytes of a payload and of the name of a
# channel are Postgres's.
NOTIFICATIONS_WAITING_MAX = 10_000
NOTIFY_PAYLOAD_BYTES_MAX = 7_999
CHANNEL_NAME_BYTES_MAX = 63

# How long a read waits for the epoch of a freshness token, unless penstock.wait_timeout says otherwise.
WAIT_FOR_TOKEN_SECONDS = 5.0

# A piece of state of up to this many rows is indexed for point reads on the spot, which takes about two
# milliseconds; larger ones beside the work, once so many reads have asked for it, and up to a size at which the index
# (12 bytes a row) would be too much. In a flow with a memory limit an index may take this share of it.
INDEX_AT_ONCE_ROWS_MAX = 20_000
INDEX_AFTER_READS = 3
INDEX_ROWS_MAX = 200_000_000
INDEX_MEMORY_SHARE_MAX = 0.02
INDEX_ROW_BYTES = 12

# Texts of statements that a session remembers how to answer, and to which it has the answer.
REMEMBERED_ANSWERS_MAX = 1_024

# VALUES of an INSERT that are read without DuckDB: in longer texts reading them costs more than it saves.
PLAIN_VALUES_TEXT_MAX = 100_000

# What is cancelled and goes on is interrupted again after this long, then after twice as long, and so on.
INTERRUPT_AGAIN_SECONDS = 0.05

# Statements longer than this are not worth remembering.
REMEMBERED_TEXT_MAX = 4_096

# Texts of which the tokens are kept, for whoever asks next about the same one: as many as may be under way.
TOKENIZED_TEXTS_MAX = 32

# Bytes of a statement's values that are read in the event loop; more of them would keep other clients waiting.
DECODED_AT_ONCE_BYTES_MAX = 10_000

# Messages that a connection knows by their bytes, and the longest of them: what drivers say again for each statement.
REPEATED_MESSAGES_MAX = 256
REPEATED_MESSAGE_BYTES_MAX = 1_024
