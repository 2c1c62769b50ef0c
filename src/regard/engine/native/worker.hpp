// One thread's work: it reads sentences, and steps all that are open at once.

// What is asked for crosses the border as this; engine/native.py has the same fields.
struct Job {
    int64_t sentences, beam, num_best, ahead, threads, batch, longest;
    const int32_t *source, *prompt, *forced;  // tokens of all sentences, one after the other
    const int64_t *source_ends, *prompt_ends, *forced_ends;  // where each sentence's end
    const int64_t* limits;  // tokens that each may say
    const double* norms;  // what a log-probability is divided by, for each length up to the longest limit
    const uint8_t* never;
    const float *source_places, *target_places, *turns;  // vectors of positions; cosines and sines
    int64_t source_rows, target_rows, turn_rows, top_k;
    double temperature, top_p;  // of drawing words; no temperature draws none
    uint64_t seed;
    int32_t (*heard)(int64_t sentence, const int32_t* tokens, int64_t count);  // after each step; nonzero ends the output
    void (*told)(int64_t sentence);
    const int32_t* cancelled;
    int32_t* tokens;  // num_best rows of `limit` tokens for each sentence
    int64_t* lengths;
    double *log_probs, *scores;
    int64_t token_room, output_room, norm_room;  // of the arrays above
};

struct Hypothesis {
    double score, log_prob;
    std::vector<int32_t> tokens;
};

// A hypothesis that is still open.
struct Open {
    int32_t token = 0;
    double log_prob = 0;
    bool over = false;             // whether its listener has heard enough
    std::vector<int64_t> steps;    // where its past stands
    std::vector<int32_t> said;
};

struct Sentence {
    int64_t number, limit, source_length = 0;
    Floats memory;  // by layer: keys and values of the source
    Floats past;    // keys and values of all layers, for each word that any of its hypotheses has said
    std::vector<Open> open, next;
    std::vector<Hypothesis> finished;
    const int32_t *forced = nullptr, *forced_end = nullptr;
};

// A token on its way through the decoder.
struct Row {
    Sentence* sentence;
    const int64_t* steps;
    int64_t length;  // of its past, with itself
    int32_t token;
};

class Worker {
public:
    Worker(const Model& model, const Job& job, const Kernels& kernels, const std::vector<int64_t>& places)
        : model(model), is(model.is), job(job), k(kernels), places(places) {}

    // Takes sentences as long as there are any, and steps those that it has.
    template <class Take>
    void work(Take take) {
        std::vector<std::unique_ptr<Sentence>> open;
        while (!(job.cancelled && __atomic_load_n(job.cancelled, __ATOMIC_RELAXED))) {
            if (int64_t(open.size()) <= job.batch / 2) {
                std::vector<std::unique_ptr<Sentence>> fresh;
                for (int64_t tokens = 0; int64_t(open.size() + fresh.size()) < job.batch && tokens < 4096;) {
                    int64_t number = take();
                    if (number < 0) break;
                    fresh.push_back(begin(number));
                    tokens += fresh.back()->source_length;
                }
                if (!fresh.empty() && is.encoder_layers) encode(fresh);
                read_prompts(fresh);
                for (auto& sentence : fresh) open.push_back(std::move(sentence));
            }
            if (open.empty()) return;
            step(open);
            size_t kept = 0;
            for (auto& sentence : open)
                if (!sentence->open.empty()) std::swap(open[kept++], sentence);
                else finish(*sentence);
            open.resize(kept);
        }
    }

private:
    const Model& model;
    const Settings& is;
    const Job& job;
    const Kernels& k;
    const std::vector<int64_t>& places;  // of each sentence's outputs
    Floats x, seen, wide, context, scores, logits, row_scales;
    std::vector<uint8_t> row_bytes;
    std::vector<Best> best;
    std::vector<float> best_values;
    std::vector<int64_t> best_words;

    static int64_t first(const int64_t* ends, int64_t i) { return i ? ends[i - 1] : 0; }

    static float* room(Floats& v, int64_t size) {
        if (int64_t(v.size()) < size) v.resize(size);
        return v.data();
    }

    std::unique_ptr<Sentence> begin(int64_t number) {
        auto s = std::make_unique<Sentence>();
        s->number = number, s->limit = job.limits[number];
        if (is.encoder_layers) s->source_length = job.source_ends[number] - first(job.source_ends, number);
        if (job.forced_ends) {
            s->forced = job.forced + first(job.forced_ends, number);
            s->forced_end = job.forced + job.forced_ends[number];
        }
        return s;
    }

    Input input(const float* from, int64_t rows, int64_t depth) {
        if (is.bytes == 4) return {from, nullptr, nullptr};
        if (int64_t(row_bytes.size()) < rows * depth) row_bytes.resize(rows * depth);
        k.quantise(from, rows, depth, row_bytes.data(), room(row_scales, rows));
        return {nullptr, row_bytes.data(), row_scales.data()};
    }

    void norm(const Norm& n, const float* from, float* to, int64_t rows) {
        k.norm(n, is.rms, float(is.eps), from, to, rows, is.width, model.width);
    }

    // Norms, where they stand: x as a sub-layer sees it, and x after it.
    const float* enter(const Norm& n, int64_t rows) {
        if (is.placement != BEFORE) return x.data();
        norm(n, x.data(), room(seen, rows * model.width), rows);
        return seen.data();
    }

    void leave(const Norm& n, int64_t rows) {
        if (is.placement == AFTER) norm(n, x.data(), x.data(), rows);
    }

    void embed(const Matrix& table, int32_t token, double scale, const float* places, int64_t place, float* out) {
        table.embed(token, float(scale), out);
        if (places)
            for (int64_t i = 0; i < model.width; i++) out[i] += places[place * model.width + i];
    }

    void think(const Layer& l, int64_t rows) {
        const int64_t hidden = l.down.depth, stride = l.up.columns;
        const float* from = enter(l.thought_norm, rows);
        float* to = room(wide, rows * stride);
        const bool clip = is.activation == RELU && !is.gated;
        k.product(l.up, input(from, rows, model.width), rows, to, stride, clip ? CLIP : STORE);
        if (!clip) k.activate(int(is.activation), is.gated, to, rows, hidden, stride);
        if (is.gated)
            for (int64_t r = 1; r < rows; r++) std::memmove(to + r * hidden, to + r * stride, hidden * sizeof(float));
        k.product(l.down, input(to, rows, hidden), rows, x.data(), model.width, ADD);
        leave(l.thought_norm, rows);
    }

    // Pairs of the first and second half of each head, turned by the angles of a position.
    void rotate(float* heads, int64_t count, int64_t place) {
        const float* turn = job.turns + place * is.head;
        const int64_t half = is.head / 2;
        for (int64_t h = 0; h < count; h++, heads += model.shape.head_stride)
            for (int64_t i = 0; i < half; i++) {
                const float a = heads[i], b = heads[half + i], cosine = turn[i], sine = turn[half + i];
                heads[i] = a * cosine - b * sine, heads[half + i] = a * sine + b * cosine;
            }
    }

    // Keys (as columns) and values of a source, group after group, from rows of `stride`.
    void memorise(const float* keys, int64_t stride, int64_t length, float* to) {
        const int64_t head = model.shape.head_stride, filled = round_up(length);
        const float* values = keys + model.shared;
        for (int64_t g = 0; g < is.groups; g++, keys += head, values += head, to += head * (filled + length)) {
            for (int64_t i = 0; i < length; i++) {
                for (int64_t d = 0; d < head; d++) to[d * filled + i] = keys[i * stride + d];
                std::memcpy(to + head * filled + i * head, values + i * stride, head * sizeof(float));
            }
            for (int64_t d = 0; d < head; d++)
                for (int64_t i = length; i < filled; i++) to[d * filled + i] = 0;
        }
    }

    int64_t memory_size(int64_t length) const { return model.shared * (round_up(length) + length); }

    // The sources, without padding, one after the other; leaves in each sentence what the decoder looks at.
    void encode(std::vector<std::unique_ptr<Sentence>>& sentences) {
        int64_t rows = 0, longest = 0, row = 0;
        for (auto& s : sentences) rows += s->source_length, longest = std::max(longest, s->source_length);
        room(x, rows * model.width), room(scores, round_up(longest));
        for (auto& s : sentences)
            for (int64_t i = 0; i < s->source_length; i++, row++)
                embed(model.source, job.source[first(job.source_ends, s->number) + i], is.source_scale, job.source_places, i,
                      &x[row * model.width]);
        if (is.embedding_norm) norm(model.source_norm, x.data(), x.data(), rows);
        const int64_t stride = model.asking + 2 * model.shared;
        Floats own(memory_size(longest));
        for (const Layer& l : model.encoder) {
            const float* from = enter(l.self_norm, rows);
            float* to = room(wide, rows * stride);
            k.product(l.self_in, input(from, rows, model.width), rows, to, stride, STORE);
            float* out = room(context, rows * model.asking);
            for (auto& s : sentences) {
                const int64_t length = s->source_length;
                if (is.rotary)
                    for (int64_t i = 0; i < length; i++) rotate(to + i * stride, is.heads + is.groups, i);
                memorise(to + model.asking, stride, length, own.data());
                for (int64_t i = 0; i < length; i++, to += stride, out += model.asking)
                    k.look_at_memory(model.shape, to, {own.data(), length}, i, scores.data(), out);
            }
            k.product(l.self_out, input(context.data(), rows, model.asking), rows, x.data(), model.width, ADD);
            leave(l.self_norm, rows);
            think(l, rows);
        }
        if (is.placement == BEFORE) norm(model.encoder_norm, x.data(), x.data(), rows);
        const Input read = input(x.data(), rows, model.width);
        for (auto& s : sentences) s->memory.resize(is.decoder_layers * memory_size(s->source_length));
        for (int64_t n = 0; n < is.decoder_layers; n++) {
            float* to = room(wide, rows * 2 * model.shared);
            k.product(model.decoder[n].cross_memory, read, rows, to, 2 * model.shared, STORE);
            for (auto& s : sentences) {
                memorise(to, 2 * model.shared, s->source_length, &s->memory[n * memory_size(s->source_length)]);
                to += s->source_length * 2 * model.shared;
            }
        }
    }

    // All but the last token of each prompt; the first step takes that one.
    void read_prompts(std::vector<std::unique_ptr<Sentence>>& sentences) {
        for (auto& s : sentences) {
            const int32_t* prompt = job.prompt + first(job.prompt_ends, s->number);
            const int64_t count = job.prompt_ends[s->number] - first(job.prompt_ends, s->number);
            s->open.resize(1);
            Open& only = s->open[0];
            only.token = prompt[count - 1];
            for (int64_t done = 0; done < count - 1;) {  // a few hundred at a time, to bound the memory
                std::vector<Row> rows;
                const int64_t now = std::min<int64_t>(count - 1 - done, 256);
                for (int64_t i = 0; i < now; i++) only.steps.push_back(grow(*s));
                for (int64_t i = 0; i < now; i++) rows.push_back({s.get(), only.steps.data(), done + i + 1, prompt[done + i]});
                decode(rows);
                done += now;
            }
        }
    }

    // Room for one more step of one hypothesis.
    int64_t grow(Sentence& s) {
        const int64_t at = s.past.size();
        s.past.resize(at + is.decoder_layers * 2 * model.shared);
        return at;
    }

    // Vectors of rows' tokens in x, after all layers.
    void decode(const std::vector<Row>& rows) {
        const int64_t count = rows.size(), stride = model.asking + 2 * model.shared;
        int64_t longest = 0;
        room(x, count * model.width);
        for (int64_t r = 0; r < count; r++) {
            embed(model.target, rows[r].token, is.target_scale, job.target_places, rows[r].length - 1, &x[r * model.width]);
            longest = std::max({longest, rows[r].length, rows[r].sentence->source_length});
        }
        room(scores, round_up(longest) + 16);
        if (is.embedding_norm) norm(model.target_norm, x.data(), x.data(), count);
        float* out = room(context, count * model.asking);
        for (int64_t n = 0; n < is.decoder_layers; n++) {
            const Layer& l = model.decoder[n];
            const float* from = enter(l.self_norm, count);
            float* to = room(wide, count * stride);
            k.product(l.self_in, input(from, count, model.width), count, to, stride, STORE);
            for (int64_t r = 0; r < count; r++) {
                Sentence& s = *rows[r].sentence;
                float* key = to + r * stride + model.asking;
                if (is.rotary) rotate(to + r * stride, is.heads + is.groups, rows[r].length - 1);
                const int64_t at = rows[r].steps[rows[r].length - 1] + n * 2 * model.shared;
                std::memcpy(&s.past[at], key, 2 * model.shared * sizeof(float));
            }
            for (int64_t r = 0; r < count; r++) {
                const float* keys = rows[r].sentence->past.data() + n * 2 * model.shared;
                const int64_t from = is.context ? std::max<int64_t>(0, rows[r].length - is.context) : 0;
                k.look_back(model.shape, to + r * stride, keys, keys + model.shared, rows[r].steps + from,
                            rows[r].length - from, scores.data(), out + r * model.asking);
            }
            k.product(l.self_out, input(out, count, model.asking), count, x.data(), model.width, ADD);
            leave(l.self_norm, count);
            if (is.encoder_layers) look_across(l, n, rows);
            think(l, count);
        }
        if (is.placement == BEFORE) norm(model.decoder_norm, x.data(), x.data(), count);
    }

    void look_across(const Layer& l, int64_t n, const std::vector<Row>& rows) {
        const int64_t count = rows.size();
        const float* from = enter(l.cross_norm, count);
        float *to = room(wide, count * model.asking), *out = context.data();
        k.product(l.cross_query, input(from, count, model.width), count, to, model.asking, STORE);
        for (int64_t r = 0; r < count; r++) {
            const Sentence& s = *rows[r].sentence;
            const Memory memory{&s.memory[n * memory_size(s.source_length)], s.source_length};
            k.look_at_memory(model.shape, to + r * model.asking, memory, -1, scores.data(), out + r * model.asking);
        }
        k.product(l.cross_out, input(out, count, model.asking), count, x.data(), model.width, ADD);
        leave(l.cross_norm, count);
    }

#include "search.hpp"
};
