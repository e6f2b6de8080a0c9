"""Every limit of the system, with its reason."""

from __future__ import annotations

# A watch that nobody reads must not eat the flow's memory: it fails instead.
WATCH_QUEUE_EPOCHS_MAX = 10_000

# Sorted batches of up to this many rows are merged at once on append: below it numpy's fixed
# cost per call, not the data, is the price.
SMALL_BATCH_ROWS_MAX = 256

# What is appended is merged at once only if it has at most this many rows: a merge costs the same for one row as
# for fifty, so of fifty a few are gathered first.
SMALL_APPEND_ROWS_MAX = 16

# This many batches of like size are merged in one go, up to this many rows: each row is then merged
# half as often as in pairs, for a few batches more to look into.
MERGE_AT_ONCE_BATCHES_MIN = 4
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

# A value in an error message is cut after this many characters.
ERROR_VALUE_LENGTH_MAX = 60

# An UPDATE or DELETE that names at most this many keys looks them up; one with more scans.
POINT_KEYS_MAX = 10_000

# Rows of a table that are looked at to estimate how many different values its columns have.
SAMPLE_ROWS_MAX = 50_000

# From this many sorted hashes on, when this many are looked for, their places are guessed instead of searched for.
GUESSED_HASHES_MIN = 2_000_000
GUESSED_NEEDLES_MIN = 128

# A delta of up to this many rows has the chunks of all its columns joined in one call; larger ones column by
# column, so that there is never a second copy of all of it.
COMBINED_ROWS_MAX = 65_536
