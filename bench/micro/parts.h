// What hocket-micro measures; each registers its benchmarks.
#pragma once

namespace hocket::bench {

void add_calls();    // a call of one rank: API, selection, engine
void add_links();    // messages through slots and over TCP
void add_kernels();  // folds and copies

}  // namespace hocket::bench
