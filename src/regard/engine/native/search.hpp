// The rest of Worker: from logits to outputs. The rules are those of decode/walk.py and decode/beam.py.

    bool walks() const { return job.beam == 1; }
    bool draws() const { return job.temperature != 0; }

    void step(std::vector<std::unique_ptr<Sentence>>& sentences) {
        std::vector<Row> rows;
        for (auto& s : sentences)
            for (Open& o : s->open) {
                o.steps.push_back(grow(*s));
                rows.push_back({s.get(), o.steps.data(), int64_t(o.steps.size()), o.token});
            }
        decode(rows);
        tell(rows);
        int64_t row = 0;
        for (auto& s : sentences) {
            const int64_t count = s->open.size();
            if (walks()) walk(*s, best[row]);
            else widen(*s, &best[row]);
            row += count;
        }
    }

    // The likeliest words of each row.
    void tell(const std::vector<Row>& rows) {
        const int64_t count = rows.size(), size = walks() ? 1 : 2 * job.beam, words = model.output.columns;
        best.assign(count, Best());
        best_values.resize(count * size), best_words.resize(count * size);
        int64_t kept = 0;
        for (int64_t r = 0; r < count; r++) {
            const Sentence& s = *rows[r].sentence;
            Best& b = best[r];
            b.size = size, b.values = &best_values[r * size], b.words = &best_words[r * size], b.never = job.never;
            if (draws() || forced(s)) kept++;
        }
        room(logits, kept * words);
        for (int64_t r = 0; r < count; r++)
            if (draws() || forced(*rows[r].sentence)) best[r].logits = &logits[--kept * words];
        k.scan(model.output, input(x.data(), count, model.width), count, best.data());
    }

    bool heard(const Sentence& s, const Open& o) const {
        return job.heard && job.heard(s.number, o.said.data(), o.said.size());
    }

    static const int32_t* forced(const Sentence& s) {
        const int64_t said = s.open[0].said.size();
        return s.forced_end - s.forced > said ? s.forced + said : nullptr;
    }

    // The log-probability of a word that need not be likely.
    double log_prob_of(const Best& b, int32_t word) const { return float(b.logits[word] - b.log_sum()); }

    void walk(Sentence& s, const Best& b) {
        Open& o = s.open[0];
        double log_prob;
        if (const int32_t* word = forced(s)) {
            o.token = *word, log_prob = log_prob_of(b, *word);
        } else if (draws()) {
            o.token = draw(s, b), log_prob = log_prob_of(b, o.token);
        } else {
            o.token = b.found ? int32_t(b.words[0]) : int32_t(is.end);
            log_prob = b.found ? float(b.values[0] - b.log_sum()) : MINUS_INFINITY;
        }
        o.log_prob += log_prob;
        o.said.push_back(o.token);
        bool over = o.token == is.end || int64_t(o.said.size()) == s.limit;
        if (!over && heard(s, o)) {
            o.said.push_back(int32_t(is.end));
            over = true;
        }
        if (!over) return;
        s.finished.push_back({o.log_prob / job.norms[o.said.size()], o.log_prob, std::move(o.said)});
        s.open.clear();
    }

    // As rng.py has it: a number in [0, 1) that depends on seed, sentence and step alone.
    double uniform(uint64_t sentence, uint64_t step) const {
        uint64_t x = job.seed + sentence;
        for (uint64_t add : {step, uint64_t(0)}) {
            x += 0x9E3779B97F4A7C15;
            x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
            x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
            x = (x ^ (x >> 31)) + add;
        }
        return double(x >> 11) * 0x1p-53;
    }

    // The word at which the cumulated probability, likeliest first, passes a number.
    int32_t draw(const Sentence& s, const Best& b) {
        const int64_t words = model.output.columns;
        const double log_sum = b.log_sum();
        std::vector<std::pair<double, int32_t>> likely;
        for (int64_t i = 0; i < words; i++) {
            if (b.logits[i] > MINUS_INFINITY && !(job.never && job.never[i]))
                likely.push_back({-(b.logits[i] - log_sum) / job.temperature, int32_t(i)});
        }
        if (likely.empty()) return int32_t(is.end);
        const int64_t size = job.top_k ? std::min<int64_t>(job.top_k, likely.size()) : likely.size();
        std::partial_sort(likely.begin(), likely.begin() + size, likely.end());
        double all = 0, reached = 0, top = likely[0].first;
        for (int64_t i = 0; i < size; i++) all += likely[i].first = std::exp(top - likely[i].first);
        int64_t kept = 0;
        for (double before = 0; kept < size && (kept == 0 || before < job.top_p * all); kept++) before += likely[kept].first;
        double wanted = 0;
        for (int64_t i = 0; i < kept; i++) wanted += likely[i].first;
        wanted *= uniform(s.number, s.open[0].said.size());
        for (int64_t i = 0; i < kept; i++)
            if ((reached += likely[i].first) > wanted) return likely[i].second;
        return likely[kept - 1].second;
    }

    struct Candidate {
        double log_prob;
        int64_t origin, word;
    };
    std::vector<Candidate> all;

    // The 2K best continuations; of the K best, those that end are finished, and K others stay open.
    void widen(Sentence& s, const Best* b) {
        all.clear();
        for (size_t r = 0; r < s.open.size(); r++) {
            if (s.open[r].over) {
                all.push_back({s.open[r].log_prob, int64_t(r), is.end});
                continue;
            }
            if (const int32_t* word = forced(s)) {
                all.push_back({s.open[r].log_prob + log_prob_of(b[r], *word), int64_t(r), *word});
                continue;
            }
            const double log_sum = b[r].log_sum();
            for (int64_t i = 0; i < b[r].found; i++)
                all.push_back({s.open[r].log_prob + float(b[r].values[i] - log_sum), int64_t(r), b[r].words[i]});
        }
        const size_t most_of = std::min<size_t>(all.size(), 2 * job.beam);
        std::partial_sort(all.begin(), all.begin() + most_of, all.end(), [](auto& a, auto& b) {
            return std::tie(b.log_prob, a.origin, a.word) < std::tie(a.log_prob, b.origin, b.word);
        });
        all.resize(most_of);
        const int64_t length = s.open[0].said.size() + 1;
        size_t kept = 0;
        for (size_t i = 0; i < all.size(); i++) {
            const Open& from = s.open[all[i].origin];
            const bool ends = all[i].word == is.end;
            if (int64_t(i) < job.beam && (ends || length == s.limit)) {
                s.finished.push_back({all[i].log_prob / job.norms[length], all[i].log_prob, from.said});
                s.finished.back().tokens.push_back(int32_t(all[i].word));
            }
            if (!ends && int64_t(kept) < job.beam) {
                if (kept == s.next.size()) s.next.emplace_back();
                Open& o = s.next[kept++];  // with the memory that it had
                o.token = int32_t(all[i].word), o.log_prob = all[i].log_prob, o.steps = from.steps, o.said = from.said;
                o.said.push_back(o.token);
                o.over = heard(s, o);
            }
        }
        std::stable_sort(s.finished.begin(), s.finished.end(), [](auto& a, auto& b) { return a.score > b.score; });
        if (int64_t(s.finished.size()) > job.beam) s.finished.resize(job.beam);
        const double least = int64_t(s.finished.size()) < job.num_best ? MINUS_INFINITY : s.finished[job.num_best - 1].score;
        const double most = std::max(job.norms[length], job.norms[std::min(length + job.ahead, s.limit)]);
        const bool hopeful = length < s.limit && kept && s.next[0].log_prob / most > least;
        std::swap(s.open, s.next);
        s.open.resize(hopeful ? kept : 0);
    }

    void finish(const Sentence& s) {
        for (int64_t i = 0; i < job.num_best; i++) {
            const int64_t at = s.number * job.num_best + i;
            if (i >= int64_t(s.finished.size())) {
                job.lengths[at] = 0;
                continue;
            }
            const Hypothesis& h = s.finished[i];
            std::copy(h.tokens.begin(), h.tokens.end(), job.tokens + places[s.number] + i * s.limit);
            job.lengths[at] = h.tokens.size(), job.log_probs[at] = h.log_prob, job.scores[at] = h.score;
        }
        if (job.told) job.told(s.number);
    }
