// How near the native engine's products come to what a core can do: GOP/s of each, beside the instruction alone.
//
//     g++ -std=c++17 -O2 -pthread -Wno-psabi -Wno-ignored-attributes -o /tmp/kernels bench/kernels.cpp && /tmp/kernels
//
// One core, nothing else running; the peak is told where there is AVX-512 with VNNI. A multiplication and an addition are
// two operations.

#include "../src/regard/engine/native/native.cpp"

#include <chrono>
#include <cstdio>
#include <functional>

namespace {

double seconds(const std::function<void()>& act) {  // the least of some
    double least = 1e9;
    for (int round = 0; round < 7; round++) {
        const auto began = std::chrono::steady_clock::now();
        act();
        least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    }
    return least;
}

constexpr int64_t LOOPS = 20'000'000;

__attribute__((target("avx512f,avx512vnni"))) void bytes_alone() {
    asm volatile(
        "mov %0, %%rcx\n1:\n"
        "vpdpbusd %%zmm30,%%zmm31,%%zmm0\nvpdpbusd %%zmm30,%%zmm31,%%zmm1\nvpdpbusd %%zmm30,%%zmm31,%%zmm2\n"
        "vpdpbusd %%zmm30,%%zmm31,%%zmm3\nvpdpbusd %%zmm30,%%zmm31,%%zmm4\nvpdpbusd %%zmm30,%%zmm31,%%zmm5\n"
        "vpdpbusd %%zmm30,%%zmm31,%%zmm6\nvpdpbusd %%zmm30,%%zmm31,%%zmm7\n"
        "dec %%rcx\njnz 1b\n" ::"r"(LOOPS) : "rcx", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
}

__attribute__((target("avx512f"))) void numbers_alone() {
    asm volatile(
        "vpxord %%zmm30,%%zmm30,%%zmm30\nvpxord %%zmm31,%%zmm31,%%zmm31\nmov %0, %%rcx\n1:\n"
        "vfmadd231ps %%zmm30,%%zmm31,%%zmm0\nvfmadd231ps %%zmm30,%%zmm31,%%zmm1\nvfmadd231ps %%zmm30,%%zmm31,%%zmm2\n"
        "vfmadd231ps %%zmm30,%%zmm31,%%zmm3\nvfmadd231ps %%zmm30,%%zmm31,%%zmm4\nvfmadd231ps %%zmm30,%%zmm31,%%zmm5\n"
        "vfmadd231ps %%zmm30,%%zmm31,%%zmm6\nvfmadd231ps %%zmm30,%%zmm31,%%zmm7\n"
        "dec %%rcx\njnz 1b\n" ::"r"(LOOPS) : "rcx", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
}

struct Case {
    const char* name;
    int64_t rows, depth, columns, matrices;  // different ones, by turns: as many as a model has
};

// GOP/s, and GB/s of weights.
void run(const Case& c, bool small, double peak) {
    std::vector<Floats> numbers(c.matrices, Floats(small ? 16 : c.columns * c.depth, 0.5f));
    std::vector<std::vector<int8_t, OnLines<int8_t>>> bytes(c.matrices);
    for (auto& b : bytes) b.assign(small ? c.columns * c.depth : 1, 3);
    Floats scales(c.columns, 1.0f), bias(c.columns, 0.0f), in(c.rows * c.depth, 0.25f), out(c.rows * c.columns), by(c.rows);
    std::vector<int32_t> excess(c.columns, 0);
    std::vector<uint8_t> rows(c.rows * c.depth);
    kernels(best_level()).quantise(in.data(), c.rows, c.depth, rows.data(), by.data());
    const Input input = small ? Input{nullptr, rows.data(), by.data()} : Input{in.data(), nullptr, nullptr};
    const int64_t turns = std::max<int64_t>(1, int64_t(2e9) / (c.rows * c.depth * c.columns * c.matrices));
    const double took = seconds([&] {
        for (int64_t turn = 0; turn < turns; turn++)
            for (int64_t i = 0; i < c.matrices; i++) {
                Matrix m;
                m.columns = c.columns, m.depth = c.depth, m.scales = scales.data(), m.bias = bias.data();
                m.excess = excess.data();
                if (small) m.bytes = bytes[i].data();
                else m.numbers = numbers[i].data();
                kernels(best_level()).product(m, input, c.rows, out.data(), c.columns, STORE);
            }
    });
    const double done = double(turns) * c.matrices * c.depth * c.columns;
    std::printf("%-28s %-8s %7.0f GOP/s  %6.1f GB/s of weights", c.name, small ? "int8" : "float32",
                2 * done * c.rows / took / 1e9, done * (small ? 1 : 4) / took / 1e9);
    if (peak > 0) std::printf("  %3.0f %% of peak", 200 * done * c.rows / took / 1e9 / peak);
    std::printf("\n");
}

}  // namespace

int main() {
    double bytes = 0, numbers = 0;
    if (best_level() == 2) {
        bytes = LOOPS * 8 * 128 / seconds(bytes_alone) / 1e9, numbers = LOOPS * 8 * 32 / seconds(numbers_alone) / 1e9;
        std::printf("peak of a core: %.0f GOP/s in bytes, %.0f in float32\n", bytes, numbers);
    }
    const Case cases[] = {{"tiny, 32 rows", 32, 128, 384, 24},     {"tiny, output, 32 rows", 32, 128, 6000, 1},
                          {"tiny, 1 row", 1, 128, 384, 24},        {"base, 32 rows", 32, 512, 2048, 24},
                          {"base, 64 rows", 64, 512, 2048, 24},    {"base, 160 rows", 160, 512, 2048, 24},
                          {"base, 5 rows", 5, 512, 2048, 24},      {"base, 1 row", 1, 512, 2048, 24}};
    for (bool small : {true, false})
        for (const Case& c : cases) run(c, small, small ? bytes : numbers);
}
