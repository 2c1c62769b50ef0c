// The arithmetic. Included once for each instruction set, inside a namespace of its own that defines LEVEL:
// 0 portable, 1 AVX2, 2 AVX-512 with VNNI. Nothing here may come from the C++ library's templates: the linker keeps one
// copy of those for all, and it must run everywhere.
//
// Every row is computed alike, whatever rows stand beside it: a result never depends on the batch.

constexpr int TILE_ROWS = LEVEL == 2 ? 6 : LEVEL == 1 ? 3 : 2;  // what fits the registers
constexpr int TILE_PANELS = LEVEL == 2 ? 4 : LEVEL == 1 ? 2 : 1;

// A register. Inner loops are written in these: gcc passes wider vectors through memory, a number at a time.
constexpr int LANES = LEVEL == 2 ? 16 : LEVEL == 1 ? 8 : 4;
typedef float Lanes __attribute__((vector_size(4 * LANES)));
typedef float LanesAt __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE Float16 load(const float* p) { return *reinterpret_cast<const FloatsAt*>(p); }
INLINE void store(float* p, Float16 x) { *reinterpret_cast<FloatsAt*>(p) = x; }
INLINE Float16 all(float x) { return x - Float16{}; }
INLINE Float16 larger(Float16 a, Float16 b) { return a > b ? a : b; }

INLINE Float4 quarters(Float16 x, bool sum) {  // of four, their sums or the largest
    Float8 a[2];
    __builtin_memcpy(a, &x, 64);
    Float8 both = sum ? a[0] + a[1] : a[0] > a[1] ? a[0] : a[1];
    Float4 b[2];
    __builtin_memcpy(b, &both, 32);
    return sum ? b[0] + b[1] : b[0] > b[1] ? b[0] : b[1];
}

INLINE float total(Float16 x) {
    Float4 four = quarters(x, true);
    return (four[0] + four[1]) + (four[2] + four[3]);
}

INLINE float most(Float16 x) {
    Float4 four = quarters(x, false);
    float a = four[0] > four[1] ? four[0] : four[1], b = four[2] > four[3] ? four[2] : four[3];
    return a > b ? a : b;
}

// Whether any lane is above a limit: a bit for each.
INLINE unsigned above(Float16 x, float limit) {
#if LEVEL == 2
    return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(limit), _CMP_GT_OQ);
#else
    Int16 found = x > all(limit);
    unsigned bits = 0;
    for (int i = 0; i < 16; i++) bits |= unsigned(found[i] & 1) << i;
    return bits;
#endif
}

// e^x to 1e-7 of it: 2^n times a polynomial of what is left [Cephes].
INLINE Float16 exponential(Float16 x) {
#if LEVEL == 2
    Float16 n = _mm512_roundscale_ps((__m512)(x * 1.44269504f), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    x = larger(x, all(-87.0f));
    x = x < all(88.0f) ? x : all(88.0f);
    const Float16 magic = all(12582912.0f);  // adding it rounds to whole numbers
    Float16 n = (x * 1.44269504f + magic) - magic;
#endif
    Float16 r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    Float16 p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
#if LEVEL == 2
    return _mm512_scalef_ps((__m512)p, (__m512)n);
#else
    return p * (Float16)((__builtin_convertvector(n, Int16) + 127) << 23);
#endif
}

// erf to 2e-7 [Abramowitz and Stegun 1964, 7.1.26].
INLINE Float16 error_function(Float16 x) {
    Float16 size = x < 0.0f ? -x : x;
    Float16 t = 1.0f / (1.0f + 0.3275911f * size);
    Float16 p = all(1.061405429f);
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    Float16 y = 1.0f - p * t * exponential(-size * size);
    return x < 0.0f ? -y : y;
}

INLINE Float16 activated(int kind, Float16 x) {
    switch (kind) {
        case GELU: return 0.5f * x * (1.0f + error_function(x * 0.707106781f));
        case GELU_TANH: return x / (1.0f + exponential(-1.595769122f * (x + 0.044715f * x * x * x)));
        case SILU: return x / (1.0f + exponential(-x));
        default: return larger(x, all(0.0f));
    }
}

// In place, rows of `width`; where gated, rows hold gates and then what they gate, and the first half is left.
void activate(int kind, bool gated, float* x, int64_t rows, int64_t width, int64_t stride) {
    for (int64_t r = 0; r < rows; r++, x += stride)
        for (int64_t i = 0; i < width; i += 16) {
            Float16 y = activated(kind, load(x + i));
            store(x + i, gated ? y * load(x + width + i) : y);
        }
}

// Layer norm, or RMS norm; `width` numbers count, and zeros fill them up to `stride`.
void norm(const Norm& n, bool rms, float eps, const float* x, float* out, int64_t rows, int64_t width, int64_t stride) {
    for (int64_t r = 0; r < rows; r++, x += stride, out += stride) {
        Float16 sum{}, squares{};
        if (!rms)
            for (int64_t i = 0; i < stride; i += 16) sum += load(x + i);
        float mean = total(sum) / width;
        for (int64_t i = 0; i < stride; i += 16) {
            Float16 d = load(x + i) - mean;
            squares += d * d;
        }
        float filled = mean * mean * (stride - width);  // what the zeros at the end added
        float scale = 1.0f / __builtin_sqrtf((total(squares) - filled) / width + eps);
        for (int64_t i = 0; i < stride; i += 16)
            store(out + i, (load(x + i) - mean) * scale * load(n.weight + i) + load(n.bias + i));
    }
}

// Rows as bytes around 128, each row by its own scale.
void quantise(const float* x, int64_t rows, int64_t stride, uint8_t* out, float* scales) {
    for (int64_t r = 0; r < rows; r++, x += stride, out += stride) {
        Float16 size{};
        for (int64_t i = 0; i < stride; i += 16) {
            Float16 v = load(x + i);
            size = larger(size, v < 0.0f ? -v : v);
        }
        float largest = most(size), by = largest > 0 ? 127.0f / largest : 0.0f;
        scales[r] = largest / 127.0f;
        for (int64_t i = 0; i < stride; i += 16) {
            Float16 shifted = load(x + i) * by + (12582912.0f + 128.0f);  // its last bits are the rounded number
#if LEVEL == 2
            _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm512_cvtepi32_epi8((__m512i)(Int16)shifted));
#else
            Int16 whole = (Int16)shifted;
            for (int n = 0; n < 16; n++) out[i + n] = uint8_t(whole[n]);
#endif
        }
    }
}

// acc += bytes of a row, less 128, times a panel's: 16 columns, 4 bytes deep.
INLINE void dot4(Int16& acc, const uint8_t* a, const int8_t* w) {
#if LEVEL == 2  // as assembler, because gcc 12 spills the accumulators of the intrinsic; it counts 128 too much
    Int16 words = *reinterpret_cast<const WordAt*>(a) - Int16{};
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(words), "v"(*reinterpret_cast<const IntsAt*>(w)));
#elif LEVEL == 1  // |a| times w with the sign of a: pairs stay below 2^15
    __m256i signs = _mm256_xor_si256(_mm256_set1_epi32(*reinterpret_cast<const WordAt*>(a)), _mm256_set1_epi8(-128));
    __m256i size = _mm256_abs_epi8(signs), ones = _mm256_set1_epi16(1);
    __m256i* half = reinterpret_cast<__m256i*>(&acc);
    for (int i = 0; i < 2; i++) {
        __m256i v = _mm256_sign_epi8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w) + i), signs);
        half[i] = _mm256_add_epi32(half[i], _mm256_madd_epi16(_mm256_maddubs_epi16(size, v), ones));
    }
#else
    for (int i = 0; i < 16; i++) {
        int sum = 0;
        for (int k = 0; k < 4; k++) sum += (int(a[k]) - 128) * w[4 * i + k];
        acc[i] += sum;
    }
#endif
}

// R rows times P panels of 16 columns; the panels after them are fetched meanwhile.
template <int R, int P>
void tile(const Matrix& m, const Input& in, int64_t row, int64_t column, Float16 (*out)[P]) {
    const int64_t depth = m.depth;
    if (m.bytes) {
        Int16 acc[R][P] = {};
        const int8_t* w = m.bytes + column * depth;
        const uint8_t* a = in.bytes + row * depth;
        for (int64_t k = 0; k < depth; k += 4) {
            UNROLLED for (int p = P; p < 2 * P; p++) __builtin_prefetch(w + p * 16 * depth + 16 * k, 0, 2);
            UNROLLED for (int r = 0; r < R; r++)
                UNROLLED for (int p = 0; p < P; p++) dot4(acc[r][p], a + r * depth + k, w + p * 16 * depth + 16 * k);
        }
        UNROLLED for (int r = 0; r < R; r++)
            UNROLLED for (int p = 0; p < P; p++) {
                Int16 sum = acc[r][p];
                if (LEVEL == 2) sum -= *reinterpret_cast<const IntsAt*>(m.excess + column + 16 * p);
                Float16 scale = load(m.scales + column + 16 * p) * in.scales[row + r];
                out[r][p] = __builtin_convertvector(sum, Float16) * scale + load(m.bias + column + 16 * p);
            }
    } else {
        Lanes acc[R][P][16 / LANES] = {};
        const float* w = m.numbers + column * depth;
        const float* a = in.numbers + row * depth;
        for (int64_t k = 0; k < depth; k++) {
            UNROLLED for (int p = P; p < 2 * P; p++) __builtin_prefetch(w + p * 16 * depth + 16 * k, 0, 2);
            UNROLLED for (int p = 0; p < P; p++)
                UNROLLED for (int part = 0; part < 16 / LANES; part++) {
                    Lanes weights = *reinterpret_cast<const LanesAt*>(w + p * 16 * depth + 16 * k + part * LANES);
                    UNROLLED for (int r = 0; r < R; r++) acc[r][p][part] += a[r * depth + k] * weights;
                }
        }
        UNROLLED for (int r = 0; r < R; r++)
            UNROLLED for (int p = 0; p < P; p++) {
                Float16 sum;
                __builtin_memcpy(&sum, acc[r][p], sizeof sum);
                out[r][p] = sum + load(m.bias + column + 16 * p);
            }
    }
}

template <int R, int P>
void tile_of(int64_t rows, const Matrix& m, const Input& in, int64_t row, int64_t column, Float16 (*out)[P]) {
    if (rows == R) return tile<R, P>(m, in, row, column, out);
    if constexpr (R > 1) tile_of<R - 1, P>(rows, m, in, row, column, out);
}

template <int P, class Sink>
INLINE void panels(const Matrix& m, const Input& in, int64_t rows, int64_t column, Sink& sink) {
    for (int64_t row = 0; row < rows; row += TILE_ROWS) {
        Float16 x[TILE_ROWS][P];
        const int64_t count = rows - row < TILE_ROWS ? rows - row : TILE_ROWS;
        tile_of<TILE_ROWS, P>(count, m, in, row, column, x);
        for (int64_t r = 0; r < count; r++) sink.template put<P>(row + r, column, x[r]);
    }
}

// All of rows times matrix; a few panels at a time meet all rows, so that weights are read once.
template <class Sink>
INLINE void multiply(const Matrix& m, const Input& in, int64_t rows, Sink sink) {
    int64_t column = 0;
    for (; column + 16 * TILE_PANELS <= m.columns; column += 16 * TILE_PANELS) panels<TILE_PANELS>(m, in, rows, column, sink);
    if constexpr (TILE_PANELS > 1)
        for (; column < m.columns; column += 16) panels<1>(m, in, rows, column, sink);
}

struct Write {
    float* out;
    int64_t stride;
    Then then;
    template <int P>
    INLINE void put(int64_t row, int64_t column, Float16 (&x)[P]) {
        float* place = out + row * stride + column;
        for (int p = 0; p < P; p++, place += 16)
            store(place, then == ADD ? x[p] + load(place) : then == CLIP ? larger(x[p], all(0.0f)) : x[p]);
    }
};

void product(const Matrix& m, const Input& in, int64_t rows, float* out, int64_t stride, Then then) {
    multiply(m, in, rows, Write{out, stride, then});
}

// Of each row's logits, which are not kept: the likeliest words, and the sum of all exponentials.
struct Scan {
    Best* best;
    template <int P>
    INLINE void put(int64_t row, int64_t column, Float16 (&x)[P]) {
        Best& b = best[row];
        Float16 highest = x[0];
        for (int p = 1; p < P; p++) highest = larger(highest, x[p]);
        if (above(highest, b.most)) {
            float before = b.most;
            b.most = most(highest);
            b.sums *= exponential(all(before - b.most));
        }
        for (int p = 0; p < P; p++) b.sums += exponential(x[p] - b.most);
        if (above(highest, b.limit()))
            for (int p = 0; p < P; p++)
                for (unsigned bits = above(x[p], b.limit()); bits; bits &= bits - 1)
                    b.offer(x[p][__builtin_ctz(bits)], column + 16 * p + __builtin_ctz(bits));
        if (b.logits)
            for (int p = 0; p < P; p++) store(b.logits + column + 16 * p, x[p]);
    }
};

void scan(const Matrix& m, const Input& in, int64_t rows, Best* best) {
    multiply(m, in, rows, Scan{best});
    for (int64_t r = 0; r < rows; r++) best[r].sum = total(best[r].sums);
}

INLINE void softmax(float* scores, int64_t length) {
    int64_t filled = round_up(length);
    for (int64_t i = length; i < filled; i++) scores[i] = MINUS_INFINITY;
    Float16 highest = load(scores), sums{};
    for (int64_t i = 16; i < filled; i += 16) highest = larger(highest, load(scores + i));
    float top = most(highest);
    for (int64_t i = 0; i < filled; i += 16) {
        Float16 e = exponential(load(scores + i) - top);
        store(scores + i, e);
        sums += e;
    }
    Float16 by = all(1.0f / total(sums));
    for (int64_t i = 0; i < filled; i += 16) store(scores + i, load(scores + i) * by);
}

// A row's heads look at a memory, whose keys stand in columns (head, length) and values in rows, group after group.
void look_at_memory(const Shape& s, const float* q, const Memory& m, int64_t place, float* scores, float* out) {
    const int64_t head = s.head_stride, filled = round_up(m.length), group = head * (filled + m.length);
    for (int64_t h = 0; h < s.heads; h++, q += head, out += head) {
        const float* keys = m.numbers + h / (s.heads / s.groups) * group;
        const float* values = keys + head * filled;
        for (int64_t i = 0; i < filled; i += 16) {
            Float16 even{}, odd{};
            for (int64_t d = 0; d < head; d += 2) {
                even += q[d] * load(keys + d * filled + i);
                odd += q[d + 1] * load(keys + (d + 1) * filled + i);
            }
            store(scores + i, (even + odd) * s.scale);
        }
        if (s.slopes && place >= 0)
            for (int64_t i = 0; i < m.length; i++) scores[i] -= s.slopes[h] * float(i < place ? place - i : i - place);
        softmax(scores, m.length);
        for (int64_t d = 0; d < head; d += 16) {
            Float16 sum{};
            for (int64_t i = 0; i < m.length; i++) sum += scores[i] * load(values + i * head + d);
            store(out + d, sum);
        }
    }
}

INLINE Float4 both_sums(Float4 a, Float4 b) {  // a0 + a2, b0 + b2, a1 + a3, b1 + b3
    return Float4{a[0], b[0], a[1], b[1]} + Float4{a[2], b[2], a[3], b[3]};
}

// A row's heads look back: step i of its past stands at `steps[i]` in keys and values.
void look_back(const Shape& s, const float* q, const float* keys, const float* values, const int64_t* steps, int64_t length,
               float* scores, float* out) {
    const int64_t head = s.head_stride;
    for (int64_t h = 0; h < s.heads; h++, q += head, out += head) {
        const int64_t group = h / (s.heads / s.groups) * head;
        for (int64_t i = 0; i < length; i += 4) {
            Float4 four[4];
            for (int n = 0; n < 4; n++) {
                const float* key = keys + steps[i + n < length ? i + n : length - 1] + group;
                Float16 sum = load(q) * load(key);
                for (int64_t d = 16; d < head; d += 16) sum += load(q + d) * load(key + d);
                four[n] = quarters(sum, true);
            }
            Float4 sums = both_sums(both_sums(four[0], four[2]), both_sums(four[1], four[3])) * s.scale;
            __builtin_memcpy(scores + i, &sums, sizeof sums);
        }
        if (s.slopes)
            for (int64_t i = 0; i < length; i++) scores[i] -= s.slopes[h] * float(length - 1 - i);
        softmax(scores, length);
        for (int64_t d = 0; d < head; d += 16) {
            Float16 even{}, odd{};
            int64_t i = 0;
            for (; i + 1 < length; i += 2) {
                even += scores[i] * load(values + steps[i] + group + d);
                odd += scores[i + 1] * load(values + steps[i + 1] + group + d);
            }
            if (i < length) even += scores[i] * load(values + steps[i] + group + d);
            store(out + d, even + odd);
        }
    }
}

const Kernels KERNELS{activate, norm, quantise, product, scan, look_at_memory, look_back};
