# The extension, built with PGXS. The core alone, its unit tests and micro-benchmarks: see
# CMakeLists.txt.
EXTENSION = bloomfilter
EXTVERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" bloomfilter.control)
DATA_built = $(EXTENSION)--$(EXTVERSION).sql
# Scripts that update from an older release, bloomfilter--OLD--NEW.sql. The install scripts of the older
# releases themselves, bloomfilter--OLD.sql beside them, are for the tests and are not installed.
DATA = $(sort $(wildcard sql/$(EXTENSION)--*--*.sql))

MODULE_big = bloomfilter
# By floors, from the lowest up: no file includes a header of a later one. docs/architecture.md
# says what each is for.
OBJS = $(addsuffix .o, $(addprefix src/, \
  arguments size_functions item_icu item_key text_cast comparison canary standby_wait timeline progress progress_view \
  chunk_functions value value_functions value_aggregate \
  filter_settings filter_command citus filter_shape chunk_row filter_leftover filter_counters filter_table chunk_insert chunk_update \
  filter_ddl rebuild_phase rebuild_journal source_spool source_snapshots source_query \
  filter_probe filter_sample filter_check filter_add filter_feed filter_create filter_register filter_state filter_stats filter_info filter_guard \
  filter_value rebuild_size rebuild_check rebuild_lock rebuild_shadow rebuild module))

# ICU of this machine, for the normalizations nfkc and username. Where there is no pkg-config, it is
# looked for in the usual places.
ICU_INCLUDES = $(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I icu-uc icu-i18n 2>/dev/null))
ICU_LIBS = $(or $(shell pkg-config --libs icu-i18n icu-uc 2>/dev/null),-licui18n -licuuc)

SERVER_INCLUDES = -isystem $(shell $(PG_CONFIG) --includedir-server) $(ICU_INCLUDES)
CXX_STANDARD = -std=gnu++20 -fno-exceptions -fno-rtti
# The server's macros go beyond C++. gcc passes over the names of warnings that only clang has.
BLOOM_CXXFLAGS = $(CXX_STANDARD) -fvisibility=hidden -fvisibility-inlines-hidden \
  -Wall -Wextra -Wpedantic -Wno-variadic-macros -Wno-gnu-statement-expression -Wno-c99-extensions
PG_CPPFLAGS = -Iinclude -Isrc $(SERVER_INCLUDES) -DBLOOMFILTER_VERSION='"$(EXTVERSION)"'
PG_CXXFLAGS = $(BLOOM_CXXFLAGS) $(COPT)
SHLIB_LINK = -lcrypto $(ICU_LIBS)

# These tests pass in a UTF8 database of any locale that lowers A to Z as English does: where a result
# or a notice would go by the locale, they use normalization "none" or hide the notice.
REGRESS = $(sort $(notdir $(basename $(wildcard test/sql/*.sql))))
REGRESS_OPTS = --inputdir=test --load-extension=bloomfilter --encoding=UTF8
ISOLATION = $(sort $(notdir $(basename $(wildcard test/specs/*.spec))))
ISOLATION_OPTS = --inputdir=test --load-extension=bloomfilter
TAP_TESTS = 1
PROVE_TESTS = $(sort $(wildcard test/t/*.pl))
EXTRA_CLEAN = $(EXTENSION)--*.sql output_iso results tmp_check tmp_check_iso log

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# A C++ library is linked by the C++ driver.
COMPILER = $(CXX) $(CXXFLAGS)

# PGXS leaves PG_CXXFLAGS out of the rule for C++ bitcode.
COMPILE.cxx.bc += $(CXX_STANDARD)

# Every source sees every header: they are few, and PGXS does not track them.
HEADERS_ALL = $(wildcard src/*.hpp include/bloomfilter/*.hpp)
$(OBJS) $(OBJS:.o=.bc): $(HEADERS_ALL) bloomfilter.control

$(EXTENSION)--$(EXTVERSION).sql: sql/bloomfilter.sql bloomfilter.control
	cp $< $@

# The archive of a release, from the last commit. What is not committed would be missing.
.PHONY: dist
dist:
	@test -z "$$(git status --porcelain)" || \
	  { echo "make dist: commit or remove these first:"; git status --short; exit 1; } >&2
	git archive --format=zip --prefix=$(EXTENSION)-$(EXTVERSION)/ -o $(EXTENSION)-$(EXTVERSION).zip HEAD

# What unpacks an archive without symbolic links leaves a file here. The isolation tests read the folder.
installcheck: test/expected/
test/expected/:
	rm -f test/expected
	ln -s ../expected test/expected
