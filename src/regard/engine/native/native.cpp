// The native engine: Transformers that translate and tell, decoded by themselves, in float32 or in bytes.
//
// kernels.hpp is the arithmetic, model.hpp the weights, worker.hpp the layers, search.hpp the searches; this file has the
// instruction sets, the threads, and the plain C that engine/native.py calls.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "model.hpp"

#define LEVEL 0
namespace portable {
#include "kernels.hpp"
}
#undef LEVEL

#define PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#define FOR(set) PRAGMA(clang attribute push(__attribute__((target(set))), apply_to = function))
#define FOR_ALL _Pragma("clang attribute pop")
#else
#define FOR(set) _Pragma("GCC push_options") PRAGMA(GCC target(set))
#define FOR_ALL _Pragma("GCC pop_options")
#endif

#if defined(__x86_64__)
FOR("avx2,fma")
#define LEVEL 1
namespace avx2 {
#include "kernels.hpp"
}
#undef LEVEL
FOR_ALL
FOR("avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
#define LEVEL 2
namespace vnni {
#include "kernels.hpp"
}
#undef LEVEL
FOR_ALL
#endif

#include "worker.hpp"

namespace {

int best_level() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni"))
        return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
    return 0;
}

const Kernels& kernels(int level) {
#if defined(__x86_64__)
    if (level == 2) return vnni::KERNELS;
    if (level == 1) return avx2::KERNELS;
#endif
    return portable::KERNELS;
}

void need(bool holds, const char* what) {
    if (!holds) throw std::runtime_error(what);
}

// Tokens of all sentences, one after the other: ends that grow, and words that there are.
void check_tokens(const int32_t* tokens, const int64_t* ends, int64_t count, int64_t least, int64_t words) {
    need(ends && (tokens || !ends[count - 1]), "tokens are missing");
    for (int64_t i = 0, before = 0; i < count; before = ends[i++])
        need(ends[i] - before >= least && ends[i] <= (int64_t(1) << 40), "a sentence is empty, or its end is no end");
    for (int64_t i = 0; i < ends[count - 1]; i++) need(tokens[i] >= 0 && tokens[i] < words, "a token is no word of the model");
}

void check(const Model& model, const Job& job) {
    const Settings& is = model.is;
    need(job.beam >= 1 && job.beam <= 4096 && job.num_best >= 1 && job.num_best <= job.beam, "the beam has no such size");
    need(job.ahead >= 0 && job.ahead <= MOST && job.batch >= 1 && job.threads >= 1 && job.threads <= 1024 && job.top_k >= 0, "a number has to be above 0");
    need(job.limits && job.norms && job.tokens && job.lengths && job.log_probs && job.scores, "a place is missing");
    need(job.temperature == 0 || (job.beam == 1 && job.temperature > 0 && job.top_p > 0), "words cannot be drawn like this");
    check_tokens(job.prompt, job.prompt_ends, job.sentences, 1, is.target_words);
    if (is.encoder_layers) check_tokens(job.source, job.source_ends, job.sentences, 1, is.source_words);
    if (job.forced_ends) check_tokens(job.forced, job.forced_ends, job.sentences, 0, is.target_words);
    need(job.longest >= 1 && job.longest <= MOST && job.longest < job.norm_room, "there is no norm for the longest output");
    need(job.output_room / job.num_best >= job.sentences, "there is too little room for the outputs");
    int64_t tokens = 0;
    for (int64_t i = 0; i < job.sentences; i++) {
        const int64_t source = is.encoder_layers ? job.source_ends[i] - (i ? job.source_ends[i - 1] : 0) : 0;
        need(job.limits[i] >= 1 && job.limits[i] <= job.longest, "a limit is outside 1 to the longest");
        need((tokens += job.limits[i] * job.num_best) <= job.token_room, "there is too little room for the tokens");
        const int64_t steps = job.prompt_ends[i] - (i ? job.prompt_ends[i - 1] : 0) + job.limits[i] - 1;
        need(!job.source_places || source <= job.source_rows, "a source is longer than its positions");
        need(!job.target_places || steps <= job.target_rows, "an output is longer than its positions");
        need(!is.rotary || (job.turns && std::max(source, steps) <= job.turn_rows), "a text is longer than its rotations");
    }
}

void decode(const Model& model, const Job& job, const Kernels& kernels) {
    if (job.sentences == 0) return;
    need(job.sentences > 0, "there are fewer than no sentences");
    check(model, job);
    const int64_t* ends = model.is.encoder_layers ? job.source_ends : job.prompt_ends;
    std::vector<int64_t> order(job.sentences), places(job.sentences);
    for (int64_t i = 0, place = 0; i < job.sentences; i++) order[i] = i, places[i] = place, place += job.limits[i] * job.num_best;
    auto length = [&](int64_t i) { return ends[i] - (i ? ends[i - 1] : 0); };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return length(a) > length(b); });
    std::atomic<int64_t> next{0};
    std::exception_ptr failed;
    std::mutex lock;
    auto run = [&] {
        try {
            Worker(model, job, kernels, places).work([&] {
                const int64_t i = next++;
                return i < job.sentences ? order[i] : -1;
            });
        } catch (...) {
            next = job.sentences;
            std::lock_guard<std::mutex> held(lock);
            failed = std::current_exception();
        }
    };
    std::vector<std::thread> others;
    try {
        for (int64_t i = 1; i < std::min(job.threads, job.sentences); i++) others.emplace_back(run);
    } catch (const std::system_error&) {  // there are no more to be had: those that are there do it
    }
    run();
    for (auto& other : others) other.join();
    if (failed) std::rethrow_exception(failed);
}

template <class Do>
int32_t guarded(char* error, int64_t room, Do act) {
    try {
        act();
        return 0;
    } catch (const std::bad_alloc&) {
        std::strncpy(error, "there is not enough memory", room - 1);
    } catch (const std::exception& e) {
        std::strncpy(error, e.what(), room - 1);
    }
    error[room - 1] = 0;
    return 1;
}

}  // namespace

extern "C" {

int32_t regard_level() { return best_level(); }

int64_t regard_size(int32_t of) { return of == 0 ? sizeof(Settings) : of == 1 ? sizeof(Tensor) : sizeof(Job); }

int32_t regard_open(const Settings* settings, const Tensor* tensors, int64_t count, void** model, char* error, int64_t room) {
    return guarded(error, room, [&] { *model = new Model(*settings, tensors, count); });
}

void regard_close(void* model) { delete static_cast<Model*>(model); }

int32_t regard_decode(const void* model, const Job* job, int32_t level, char* error, int64_t room) {
    return guarded(error, room, [&] {
        need(level >= 0 && level <= best_level(), "this processor has no such instructions");
        decode(*static_cast<const Model*>(model), *job, kernels(level));
    });
}
}
