#!/usr/bin/env bash
# Installs a build into an empty prefix, moves that elsewhere, and builds and runs a user's programs against it: with CMake's
# find_package and with pkg-config, in C and in C++. Also looks at what the library exports and what it is called.
#   install_test.sh BUILD SOURCE CC CXX
set -euo pipefail
build=$1 source=$2 cc=$3 cxx=$4
user=$source/tests/api/install
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "install_test: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$work/first" >"$work/install.log" || { cat "$work/install.log"; fail "cmake --install failed"; }
prefix=$work/moved
mv "$work/first" "$prefix"
pc=$(find "$prefix" -name hocket.pc)
lib=$(dirname "$(dirname "$pc")")

# Names: libhocket.so -> libhocket.so.0 -> libhocket.so.0.1.0, and the middle one is what programs ask for.
version=$(sed -n 's/^Version: //p' "$pc")
soname=libhocket.so.${version%%.*}
[ "$(readlink "$lib/libhocket.so")" = "$soname" ] || fail "libhocket.so is no link to $soname"
[ "$(readlink "$lib/$soname")" = "libhocket.so.$version" ] || fail "$soname is no link to libhocket.so.$version"
readelf -d "$lib/libhocket.so" | grep -q "SONAME.*\[$soname\]" || fail "the library's SONAME is not $soname"

# Exports: each function of the header, and nothing else.
nm -D --defined-only "$lib/libhocket.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$work/exported"
{ grep -v '^ \*\|^/\*' "$prefix/include/hocket/hocket.h" | grep -oE '\bhkt[A-Z][A-Za-z0-9]*\(' | tr -d '('; } | sort -u >"$work/declared"
[ -s "$work/declared" ] || fail "found no function in hocket.h"
diff "$work/declared" "$work/exported" >"$work/diff" || fail "declared (<) and exported (>) functions differ:"$'\n'"$(cat "$work/diff")"
[ -z "$(find "$prefix" -path '*/src/*' -o -name '*_internal*')" ] || fail "parts of src/ were installed"

# Nothing of this project's environment reaches the user's programs; one rank needs no peer.
run() { # program, expected
  local said
  said=$(env -i PATH="$PATH" LD_LIBRARY_PATH="${3-}" RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29400 timeout 30 "$1") ||
    fail "$1 failed"
  [ "$said" = "$2" ] || fail "$1 said '$said', not '$2'"
}

cmake -S "$user" -B "$work/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
  >"$work/cmake.log" 2>&1 && cmake --build "$work/cmake" >>"$work/cmake.log" 2>&1 || { cat "$work/cmake.log"; fail "find_package(hocket): no build"; }
run "$work/cmake/user_c" 'c: ok'
run "$work/cmake/user_cc" 'c++: ok'

export PKG_CONFIG_PATH=$(dirname "$pc")
read -ra cflags <<<"$(pkg-config --cflags hocket)"
read -ra libs <<<"$(pkg-config --libs hocket)"
"$cc" -std=c99 -Wall -Wextra -Werror "${cflags[@]}" "$user/user.c" -o "$work/user_c" "${libs[@]}" || fail "pkg-config: no C build"
"$cxx" -std=c++20 -Wall -Wextra -Werror "${cflags[@]}" "$user/user.cc" -o "$work/user_cc" "${libs[@]}" || fail "pkg-config: no C++ build"
run "$work/user_c" 'c: ok' "$lib"
run "$work/user_cc" 'c++: ok' "$lib"

program=$prefix/bin/hocket
[ -x "$program" ] || fail "the program is not installed"
"$program" --version | grep -qF "$version" || fail "hocket --version does not say $version"
for collective in all_gather all_reduce alltoall alltoallv broadcast gather hypercube reduce reduce_scatter scatter sendrecv; do
  link=$prefix/bin/${collective}_perf
  [ "$(readlink "$link")" = hocket ] || fail "$link is no link to hocket"
  env -i PATH="$PATH" timeout 30 "$link" -g 2 -b 1K -e 1K -n 1 >"$work/perf.log" 2>&1 || { cat "$work/perf.log"; fail "$link failed"; }
  grep -q "^# Collective test starting: ${collective}_perf$" "$work/perf.log" || { cat "$work/perf.log"; fail "$link measured something else"; }
done
echo "install_test: $soname with $(wc -l <"$work/exported") functions; C and C++ by find_package and pkg-config ran"
