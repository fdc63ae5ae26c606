#!/usr/bin/env bash
# Compiles the module that bench/rivals.sh takes as REDISBLOOM_SO, with what its own Makefile tells the
# compiler, and nothing else of what that does.
#
#   git clone --recursive --branch v2.8.20 https://github.com/RedisBloom/RedisBloom /tmp/RedisBloom
#   bench/rivals/redisbloom.sh /tmp/RedisBloom /tmp/redisbloom.so
#
# Keep both outside this repository: its licenses are not ours.
set -euo pipefail

[[ $# == 2 && -e $1/src/rebloom.c ]] || { echo 'usage: bench/rivals/redisbloom.sh SOURCE MODULE' >&2; exit 1; }
module=$(realpath -m "$2")
cd "$1"
cc -O3 -flto -fPIC -shared -std=gnu99 -w -D_GNU_SOURCE -DREDIS_MODULE_TARGET -DREDISMODULE_SDK_RLEC \
  -DTD_MALLOC_INCLUDE='"../../../src/td_redismodule_malloc.h"' \
  -I. -Isrc -Ideps/RedisModulesSDK -Ideps -Ideps/murmur2 -Ideps/t-digest-c/src \
  deps/bloom/bloom.c deps/murmur2/MurmurHash2.c deps/rmutil/util.c src/rebloom.c src/sb.c src/cf.c \
  src/rm_topk.c src/rm_tdigest.c src/topk.c src/rm_cms.c src/cms.c deps/t-digest-c/src/tdigest.c \
  -lm -o "$module"
echo "$module"
