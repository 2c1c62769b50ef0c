// Runs one job of the native engine that was written to a file, and writes what came of it; for processors that have no
// Python here. The file: settings; tensors; the job, and what its pointers point to, as (place in the job, bytes).
// Without files it prints the sizes of its structures.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "native.cpp"

template <class T>
T take(FILE* file) {
    T value;
    if (std::fread(&value, sizeof(T), 1, file) != 1) std::exit(3);
    return value;
}

char* take(FILE* file, int64_t size) {
    char* data = static_cast<char*>(std::malloc(size + 1));
    if (std::fread(data, 1, size, file) != size_t(size)) std::exit(3);
    return data;
}

int main(int count, char** names) {
    if (count == 1) {
        for (int32_t of = 0; of < 3; of++) std::printf("%lld\n", static_cast<long long>(regard_size(of)));
        return 0;
    }
    FILE* file = std::fopen(names[1], "rb");
    const auto settings = take<Settings>(file);
    std::vector<Tensor> tensors(take<int64_t>(file));
    for (Tensor& t : tensors) {
        t = take<Tensor>(file);
        t.data = take(file, t.rows * t.columns * t.bytes);
    }
    auto job = take<Job>(file);
    std::vector<std::pair<char*, int64_t>> outputs;
    for (int64_t left = take<int64_t>(file); left > 0; left--) {
        const auto place = take<int64_t>(file), size = take<int64_t>(file);
        char* data = take(file, size);
        std::memcpy(reinterpret_cast<char*>(&job) + place, &data, sizeof(data));
        outputs.push_back({data, size});
    }
    char error[256] = "";
    void* model = nullptr;
    if (regard_open(&settings, tensors.data(), tensors.size(), &model, error, sizeof(error)) ||
        regard_decode(model, &job, 0, error, sizeof(error))) {
        std::fputs(error, stderr);
        return 2;
    }
    FILE* out = std::fopen(names[2], "wb");
    for (auto& [data, size] : outputs) std::fwrite(data, 1, size, out);
    return std::fclose(out);
}
