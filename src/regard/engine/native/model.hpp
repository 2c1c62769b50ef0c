// What a model is: settings, and weights as the caller holds them. Sizes are checked before pointers are used.

typedef float Float16 __attribute__((vector_size(64)));
typedef float Float8 __attribute__((vector_size(32)));
typedef float Float4 __attribute__((vector_size(16)));
typedef int32_t Int16 __attribute__((vector_size(64)));
typedef float FloatsAt __attribute__((vector_size(64), aligned(4), may_alias));  // as they stand in memory, anywhere
typedef int32_t IntsAt __attribute__((vector_size(64), aligned(1), may_alias));
typedef int32_t WordAt __attribute__((aligned(1), may_alias));
#define INLINE inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 8")

template <class T>
struct OnLines {  // an allocator of whole cache lines, so that no vector is loaded from two
    typedef T value_type;
    OnLines() = default;
    template <class U>
    OnLines(const OnLines<U>&) {}
    T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(64))); }
    void deallocate(T* p, size_t) { ::operator delete(p, std::align_val_t(64)); }
    friend bool operator==(const OnLines&, const OnLines&) { return true; }
    friend bool operator!=(const OnLines&, const OnLines&) { return false; }
};
typedef std::vector<float, OnLines<float>> Floats;

constexpr float MINUS_INFINITY = -__builtin_inff();
constexpr int64_t MOST = 1 << 24;  // of anything that is counted
enum Activation { RELU, GELU, GELU_TANH, SILU };
enum Placement { BEFORE, AFTER, NOWHERE };  // of norms
enum Then { STORE, ADD, CLIP };             // what is done with a product

constexpr int64_t round_up(int64_t n) { return (n + 15) / 16 * 16; }

// Settings and tensors cross the border as these; engine/native.py has the same fields.
struct Settings {
    int64_t width, hidden, heads, groups, head, encoder_layers, decoder_layers, source_words, target_words;
    int64_t end, activation, gated, rms, placement, embedding_norm, rotary, context, bytes;
    double eps, scale, source_scale, target_scale;
};

struct Tensor {
    const void* data;
    int64_t rows, columns, bytes;  // bytes of a number: 4 is float32, 1 is int8
};

struct Norm {
    const float *weight, *bias;
};

// Columns in panels of 16, which are (units of depth, 16): a unit is a number, or four bytes.
struct Matrix {
    int64_t columns = 0, depth = 0;
    const float* numbers = nullptr;
    const int8_t* bytes = nullptr;
    const float *scales = nullptr, *bias = nullptr;  // of columns
    const int32_t* excess = nullptr;                 // what each column gains from bytes that are counted from 128

    int64_t units() const { return bytes ? depth / 4 : depth; }

    void embed(int64_t word, float scale, float* out) const {
        for (int64_t k = 0; k < depth; k++)
            if (bytes) out[k] = bytes[(word / 16 * units() + k / 4) * 64 + word % 16 * 4 + k % 4] * (scales[word] * scale);
            else out[k] = numbers[(word / 16 * units() + k) * 16 + word % 16] * scale;
    }
};

// Rows to be multiplied: as numbers, or as bytes around 128 with a scale for each.
struct Input {
    const float* numbers;
    const uint8_t* bytes;
    const float* scales;
};

struct Memory {
    const float* numbers;
    int64_t length;
};

struct Shape {
    int64_t heads, groups, head_stride;
    float scale;
    const float* slopes;
};

// The likeliest words of one row, best first, and the exponentials of all its logits.
struct alignas(64) Best {
    Float16 sums{};
    float sum = 0, most = MINUS_INFINITY;
    int64_t size = 0, found = 0;
    float* values = nullptr;
    int64_t* words = nullptr;
    const uint8_t* never = nullptr;   // which words may not be said
    float* logits = nullptr;

    INLINE float limit() const { return found < size ? MINUS_INFINITY : values[size - 1]; }

    void offer(float value, int64_t word) {
        if (!(value > limit()) || (never && never[word])) return;
        int64_t i = found < size ? found++ : size - 1;
        for (; i > 0 && value > values[i - 1]; i--) values[i] = values[i - 1], words[i] = words[i - 1];
        values[i] = value, words[i] = word;
    }

    double log_sum() const { return double(most) + std::log(double(sum)); }
};

struct Kernels {
    void (*activate)(int, bool, float*, int64_t, int64_t, int64_t);
    void (*norm)(const Norm&, bool, float, const float*, float*, int64_t, int64_t, int64_t);
    void (*quantise)(const float*, int64_t, int64_t, uint8_t*, float*);
    void (*product)(const Matrix&, const Input&, int64_t, float*, int64_t, Then);
    void (*scan)(const Matrix&, const Input&, int64_t, Best*);
    void (*look_at_memory)(const Shape&, const float*, const Memory&, int64_t, float*, float*);
    void (*look_back)(const Shape&, const float*, const float*, const float*, const int64_t*, int64_t, float*, float*);
};

struct Layer {
    Norm self_norm, cross_norm, thought_norm;
    Matrix self_in, self_out, cross_query, cross_memory, cross_out, up, down;
};

struct Model {
    Settings is;
    Shape shape;
    int64_t width, asking, shared;  // of rows, of all heads' queries, of all groups' keys: filled up to 16s
    Matrix source, target, output;
    Norm source_norm, target_norm, encoder_norm, decoder_norm;
    std::vector<Layer> encoder, decoder;
    std::vector<std::vector<int32_t>> excesses;

    Model(const Settings& settings, const Tensor* tensors, int64_t count) : is(settings), left(tensors), end(tensors + count) {
        check();
        const int64_t head = round_up(is.head);
        width = round_up(is.width), asking = is.heads * head, shared = is.groups * head;
        shape = {is.heads, is.groups, head, float(is.scale), take<float>(1, is.heads)};
        if (is.encoder_layers) {
            source = matrix(round_up(is.source_words), width);
            if (is.embedding_norm) source_norm = norm();
            for (int64_t i = 0; i < is.encoder_layers; i++) encoder.push_back(layer(false));
            if (is.placement == BEFORE) encoder_norm = norm();
        }
        target = matrix(round_up(is.target_words), width);
        if (is.embedding_norm) target_norm = norm();
        for (int64_t i = 0; i < is.decoder_layers; i++) decoder.push_back(layer(is.encoder_layers > 0));
        if (is.placement == BEFORE) decoder_norm = norm();
        output = matrix(round_up(is.target_words), width);
        if (left != end) throw std::runtime_error("more tensors than the model has");
        bool sloped = false;
        for (int64_t i = 0; i < is.heads; i++) sloped |= shape.slopes[i] != 0;
        if (!sloped) shape.slopes = nullptr;
    }

private:
    const Tensor *left, *end;

    void check() const {
        const int64_t counts[] = {is.width, is.hidden, is.heads, is.groups, is.head, is.decoder_layers, is.target_words};
        for (int64_t n : counts)
            if (n < 1 || n > MOST) throw std::runtime_error("a size is outside what a model can have");
        if (is.heads * round_up(is.head) > MOST || is.heads % is.groups || is.encoder_layers < 0 || is.encoder_layers > MOST ||
            is.source_words < 0 || is.source_words > MOST || is.end < 0 || is.end >= is.target_words || is.context < 0 ||
            (is.encoder_layers && !is.source_words) || (is.rotary && is.head % 2) || (is.bytes != 1 && is.bytes != 4))
            throw std::runtime_error("the settings contradict each other");
    }

    template <class Number>
    const Number* take(int64_t rows, int64_t columns) {
        if (left == end) throw std::runtime_error("there are too few tensors");
        if (left->rows != rows || left->columns != columns || left->bytes != sizeof(Number) || !left->data)
            throw std::runtime_error("a tensor is " + std::to_string(left->rows) + " x " + std::to_string(left->columns) +
                                     ", where " + std::to_string(rows) + " x " + std::to_string(columns) + " is expected");
        return static_cast<const Number*>((left++)->data);
    }

    Norm norm() {
        const float* weight = take<float>(1, width);
        return {weight, take<float>(1, width)};
    }

    Matrix matrix(int64_t columns, int64_t depth) {
        Matrix m;
        m.columns = columns, m.depth = depth;
        if (is.bytes == 1) {
            m.bytes = take<int8_t>(columns, depth);
            m.scales = take<float>(1, columns);
            std::vector<int32_t> excess(columns);
            for (int64_t column = 0, at = 0; column < columns; column += 16)
                for (int64_t unit = 0; unit < depth / 4; unit++)
                    for (int i = 0; i < 64; i++) excess[column + i / 4] += 128 * m.bytes[at++];
            excesses.push_back(std::move(excess));
            m.excess = excesses.back().data();
        } else {
            m.numbers = take<float>(columns, depth);
        }
        m.bias = take<float>(1, columns);
        return m;
    }

    Layer layer(bool cross) {
        Layer l;
        const int64_t hidden = round_up(is.hidden);
        if (is.placement != NOWHERE) l.self_norm = norm();
        l.self_in = matrix(asking + 2 * shared, width);
        l.self_out = matrix(width, asking);
        if (cross) {
            if (is.placement != NOWHERE) l.cross_norm = norm();
            l.cross_query = matrix(asking, width);
            l.cross_memory = matrix(2 * shared, width);
            l.cross_out = matrix(width, asking);
        }
        if (is.placement != NOWHERE) l.thought_norm = norm();
        l.up = matrix(is.gated ? 2 * hidden : hidden, width);
        l.down = matrix(width, hidden);
        return l;
    }
};
