#include "schedule/text.h"

#include <algorithm>
#include <array>
#include <limits>

namespace hocket {
namespace {

constexpr uint32_t kFormat = 1;
constexpr uint32_t kMax8 = 0xff, kMax16 = 0xffff, kMax32 = 0xffffffff;
constexpr std::array<const char*, kBufs> kBufNames = {"in", "out", "scratch"};

std::string range_text(const Step& s, Buf b, uint32_t chunk) {
  const auto i = static_cast<size_t>(b);
  const char* name = i < kBufNames.size() ? kBufNames[i] : "?";
  if (s.stride != 1) return format("%s[%u:%u:%u]", name, chunk, s.count, s.stride);
  return s.count == 1 ? format("%s[%u]", name, chunk) : format("%s[%u:%u]", name, chunk, s.count);
}

std::string peer_text(const std::vector<Peer>& table, uint32_t k) {
  return k < table.size() ? format("%u.t%u", table[k].rank, table[k].tag) : "?.t?";
}

std::string table_text(const char* name, const std::vector<Peer>& table) {
  std::string text = format("  %s", name);
  for (uint32_t k = 0; k < table.size(); ++k) text += " " + peer_text(table, k);
  return text + "\n";
}

std::string value_text(const RankPlan& plan, const Step& s) {
  std::string text;
  const auto operand = [&](const std::string& t) { text += (text.empty() ? "v = " : " + ") + t; };
  const auto local = [&] {
    operand((s.nload > 1 ? format("%u of ", s.nload) : "") + range_text(s, s.src_buf(), s.src) +
            (s.has(kPre) ? "*pre" : ""));
  };
  for (uint32_t k = 0; k < s.nrecv; ++k) {
    if (s.has(kLoad) && k == s.self) local();
    operand("pop " + peer_text(plan.in, s.recv + k));
  }
  if (s.has(kLoad) && s.self >= s.nrecv) local();
  return text;
}

// One line, read from left to right. Blanks between words do not matter.
class Scanner {
 public:
  Scanner(std::string_view line, uint32_t number) : line_(line), number_(number) {}

  uint32_t line_number() const { return number_; }
  bool at_end() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
    return at_ == line_.size();
  }
  // Takes `word` if it is next. A word of letters ends where letters, digits and underscores end.
  bool take(std::string_view word) {
    at_end();
    if (line_.substr(at_, word.size()) != word) return false;
    const size_t end = at_ + word.size();
    if (is_name(word.back()) && !is_digit(word.back()) && end < line_.size() && is_letter(line_[end])) return false;
    at_ = end;
    return true;
  }
  bool at_number() { return !at_end() && is_digit(line_[at_]); }
  Status expect(std::string_view word) {
    if (take(word)) return {};
    return fail("'" + std::string(word) + "'");
  }
  Status expect_end() {
    if (at_end()) return {};
    return fail("the end of the line");
  }
  Result<uint32_t> number(uint32_t max) {
    at_end();
    const size_t start = at_;
    uint64_t value = 0;
    for (; at_ < line_.size() && is_digit(line_[at_]) && value <= max; ++at_)
      value = value * 10 + static_cast<uint64_t>(line_[at_] - '0');
    if (at_ > start && value <= max) return static_cast<uint32_t>(value);
    at_ = start;
    return fail(hocket::format("a number from 0 to %u", max));
  }
  // word=number
  Result<uint32_t> field(std::string_view word, uint32_t max = kMax32) {
    HKT_TRY(expect(word));
    HKT_TRY(expect("="));
    return number(max);
  }
  Result<std::string> name() {
    at_end();
    const size_t start = at_;
    while (at_ < line_.size() && is_name(line_[at_])) ++at_;
    if (at_ > start) return std::string(line_.substr(start, at_ - start));
    return fail("a name");
  }
  Error fail(const std::string& expected) {
    const std::string found = at_end() ? "the end of the line" : "'" + std::string(line_.substr(at_, 24)) + "'";
    return error(hktInvalidArgument, "line %u, column %zu: found %s, expected %s", number_, at_ + 1, found.c_str(),
                 expected.c_str());
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  static bool is_name(char c) { return is_letter(c) || is_digit(c); }

  std::string_view line_;
  uint32_t number_;
  size_t at_ = 0;
};

class Parser {
 public:
  Result<Plan> run(std::string_view text) {
    uint32_t number = 0;
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      Scanner line(text.substr(0, end), ++number);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.at_end() || line.take("#")) continue;
      HKT_TRY(one_line(line));
    }
    if (state_ == State::header)
      return error(hktInvalidArgument, "line %u: the text ends without a 'plan' line", number);
    if (state_ == State::in || state_ == State::out || plan_.ranks.size() != plan_.info.nranks)
      return error(hktInvalidArgument, "line %u: the text ends, but ranks or link tables are missing (%zu of %u ranks)",
                   number, plan_.ranks.size(), plan_.info.nranks);
    HKT_TRY(complete(Scanner({}, number)));
    return std::move(plan_);
  }

 private:
  enum class State : uint8_t { header, rank, in, out, steps };

  Status one_line(Scanner& line) {
    switch (state_) {
      case State::header:
        return header(line);
      case State::rank:
        return rank(line);
      case State::in:
        return table(line, "in", plan_.ranks.back().in, State::out);
      case State::out:
        return table(line, "out", plan_.ranks.back().out, State::steps);
      case State::steps:
        break;
    }
    return line.take("rank") ? rank_fields(line) : step(line);
  }

  Status header(Scanner& line) {
    PlanInfo& info = plan_.info;
    HKT_TRY(line.expect("plan"));
    HKT_ASSIGN(const uint32_t version, line.field("format"));
    if (version != kFormat)
      return error(hktInvalidArgument, "line 1: this is format %u, only format %u can be read", version, kFormat);
    HKT_TRY(line.expect("name"));
    HKT_TRY(line.expect("="));
    HKT_ASSIGN(info.name, line.name());
    HKT_TRY(line.expect("collective"));
    HKT_TRY(line.expect("="));
    uint32_t c = 0;
    while (c < kCollectives && !line.take(collective_name(static_cast<Collective>(c)))) ++c;
    if (c == kCollectives) return line.fail("a collective (all_reduce, broadcast, barrier, reduce, ...)");
    info.collective = static_cast<Collective>(c);
    HKT_ASSIGN(info.nranks, line.field("ranks"));
    HKT_ASSIGN(info.root, line.field("root"));
    for (uint32_t b = 0; b < kBufs; ++b) {
      HKT_ASSIGN(info.chunks[b], line.field(kBufNames[b]));
    }
    HKT_ASSIGN(info.message_blocks, line.field("message_blocks"));
    state_ = State::rank;
    return line.expect_end();
  }

  Status rank(Scanner& line) {
    HKT_TRY(line.expect("rank"));
    return rank_fields(line);
  }
  Status rank_fields(Scanner& line) {
    const auto next = static_cast<uint32_t>(plan_.ranks.size());
    if (next == plan_.info.nranks) return line.fail("no further rank");
    HKT_TRY(line.expect(std::to_string(next)));
    HKT_TRY(complete(line));
    plan_.ranks.emplace_back();
    HKT_ASSIGN(lanes_, line.field("lanes"));
    HKT_ASSIGN(steps_, line.field("steps"));
    HKT_ASSIGN(plan_.ranks.back().cost.messages, line.field("messages"));
    HKT_ASSIGN(plan_.ranks.back().cost.blocks, line.field("blocks"));
    state_ = State::in;
    return line.expect_end();
  }

  // The rank so far has the lanes and steps that it announced.
  Status complete(const Scanner& line) const {
    if (plan_.ranks.empty()) return {};
    const RankPlan& r = plan_.ranks.back();
    if (r.lanes.size() == lanes_ && r.steps.size() == steps_) return {};
    return error(hktInvalidArgument,
                 "line %u: rank %zu ends here with %zu lanes and %zu steps, its line says %u and %u",
                 line.line_number(), plan_.ranks.size() - 1, r.lanes.size(), r.steps.size(), lanes_, steps_);
  }

  Result<Peer> peer(Scanner& line) {
    Peer p;
    HKT_ASSIGN(p.rank, line.number(kMax32));
    HKT_TRY(line.expect("."));
    HKT_TRY(line.expect("t"));
    HKT_ASSIGN(const uint32_t tag, line.number(kMax16));
    p.tag = static_cast<uint16_t>(tag);
    return p;
  }
  // Links are unique in a table, for steps name them by peer and tag.
  Status table(Scanner& line, std::string_view name, std::vector<Peer>& links, State next) {
    HKT_TRY(line.expect(name));
    while (!line.at_end()) {
      HKT_ASSIGN(const Peer p, peer(line));
      links.push_back(p);
    }
    std::vector<uint64_t> keys;
    for (const Peer& p : links) keys.push_back(uint64_t{p.rank} << 16 | p.tag);
    std::sort(keys.begin(), keys.end());
    if (std::adjacent_find(keys.begin(), keys.end()) != keys.end()) return line.fail("every link once");
    state_ = next;
    return {};
  }

  Status step(Scanner& line) {
    RankPlan& r = plan_.ranks.back();
    HKT_TRY(line.expect(format("r%zu", plan_.ranks.size() - 1)));
    HKT_TRY(line.expect("l"));
    HKT_ASSIGN(const uint32_t lane, line.number(kMax16));
    if (lane == r.lanes.size()) {
      r.lanes.push_back({static_cast<uint32_t>(r.steps.size()), 0});
      if (line.take(":")) {
        HKT_TRY(line.expect("idle"));
        return line.expect_end();
      }
    } else if (lane + 1 != r.lanes.size()) {
      return line.fail(format("the next step of lane %zu, or lane %zu", r.lanes.size() - 1, r.lanes.size()));
    }
    HKT_TRY(line.expect(format("s%u", r.lanes.back().count)));
    HKT_TRY(line.expect(":"));
    const auto first_dep = static_cast<uint32_t>(r.deps.size());
    HKT_ASSIGN(const Step s, body(line));
    r.steps.push_back(s);
    r.first_dep.push_back(first_dep);
    ++r.lanes.back().count;
    return {};
  }

  // after ...; v = ...; post; store ...; push ...; blocks ...
  Result<Step> body(Scanner& line) {
    Step s;
    bool ranged = false;
    if (line.take("after")) {
      HKT_TRY(deps(line, s));
      HKT_TRY(more(line));
    }
    if (line.take("v")) {
      HKT_TRY(line.expect("="));
      do {
        HKT_TRY(operand(line, s, ranged));
      } while (line.take("+"));
      HKT_TRY(more(line));
    }
    if (line.take("post")) {
      s = s.post();
      HKT_TRY(more(line));
    }
    if (line.take("store")) {
      HKT_TRY(store(line, s, ranged));
      HKT_TRY(more(line));
    }
    if (line.take("push")) {
      HKT_TRY(push(line, s));
      HKT_TRY(more(line));
    }
    if (!ranged && line.take("blocks")) {
      HKT_ASSIGN(s.count, line.number(kMax32));
      if (line.take(":")) {
        HKT_ASSIGN(s.stride, line.number(kMax32));
      }
    }
    HKT_TRY(line.expect_end());
    return s;
  }
  // A part of a step ends with a semicolon and another part, or with the line.
  static Status more(Scanner& line) {
    if (line.at_end()) return {};
    HKT_TRY(line.expect(";"));
    if (line.at_end()) return line.fail("another part of the step");
    return {};
  }

  Status deps(Scanner& line, Step& s) {
    do {
      if (s.ndep == kMax8) return line.fail("at most 255 dependencies");
      Dep d;
      HKT_TRY(line.expect("l"));
      HKT_ASSIGN(const uint32_t lane, line.number(kMax16));
      HKT_TRY(line.expect("s"));
      HKT_ASSIGN(d.step, line.number(kMax32));
      uint32_t lag = 0;
      if (line.take("lag")) {
        HKT_ASSIGN(lag, line.number(kMax16));
      }
      d.lane = static_cast<uint16_t>(lane);
      d.lag = static_cast<uint16_t>(lag);
      plan_.ranks.back().deps.push_back(d);
      ++s.ndep;
    } while (line.take(","));
    return {};
  }

  Status operand(Scanner& line, Step& s, bool& ranged) {
    if (line.take("pop")) {
      HKT_ASSIGN(const uint32_t k, link(line, plan_.ranks.back().in, s.has(kRecv) ? s.recv + s.nrecv : kMax32));
      if (s.has(kRecv)) {
        ++s.nrecv;
      } else {
        s = s.pop(k);
      }
      return {};
    }
    if (s.has(kLoad)) return line.fail("one range of operands from a buffer at most, or pop");
    uint32_t chunk = 0, operands = 1;
    if (line.at_number()) {
      HKT_ASSIGN(operands, line.number(kMax16));
      HKT_TRY(line.expect("of"));
    }
    HKT_ASSIGN(const Buf b, range(line, s, ranged, chunk));
    s.self = s.nrecv;
    s.nload = static_cast<uint16_t>(operands);
    s.ops |= kLoad;
    s.bufs = static_cast<uint8_t>(b);
    s.src = chunk;
    if (line.take("*")) {
      HKT_TRY(line.expect("pre"));
      s = s.pre();
    }
    return {};
  }

  Status store(Scanner& line, Step& s, bool& ranged) {
    uint32_t chunk = 0;
    HKT_ASSIGN(const Buf b, range(line, s, ranged, chunk));
    s.ops |= kStore;
    s.bufs = static_cast<uint8_t>((s.bufs & 0x0f) | (static_cast<uint8_t>(b) << 4));
    s.dst = chunk;
    return {};
  }

  Status push(Scanner& line, Step& s) {
    const std::vector<Peer>& out = plan_.ranks.back().out;
    HKT_ASSIGN(const uint32_t first, link(line, out, kMax32));
    s = s.push(first);
    while (line.take(",")) {
      HKT_ASSIGN(const uint32_t k, link(line, out, s.send + s.nsend));
      s = s.push(first, k - first + 1);
    }
    return {};
  }

  // buf[chunk], buf[chunk:count], buf[chunk:count:stride]. Load and store of a step share count and stride.
  Result<Buf> range(Scanner& line, Step& s, bool& ranged, uint32_t& chunk) {
    uint32_t b = 0;
    while (b < kBufs && !line.take(kBufNames[b])) ++b;
    if (b == kBufs) return line.fail("in, out or scratch");
    HKT_TRY(line.expect("["));
    HKT_ASSIGN(chunk, line.number(kMax32));
    uint32_t count = 1, stride = 1;
    if (line.take(":")) {
      HKT_ASSIGN(count, line.number(kMax32));
      if (line.take(":")) {
        HKT_ASSIGN(stride, line.number(kMax32));
      }
    }
    if (ranged && (count != s.count || stride != s.stride)) return line.fail("the count and stride of what v loads");
    HKT_TRY(line.expect("]"));
    ranged = true;
    s.count = count;
    s.stride = stride;
    return static_cast<Buf>(b);
  }

  // The index of the named link; must be `next` unless that is kMax32.
  Result<uint32_t> link(Scanner& line, const std::vector<Peer>& table, uint32_t next) {
    HKT_ASSIGN(const Peer p, peer(line));
    const auto same = [&](const Peer& q) { return q.rank == p.rank && q.tag == p.tag; };
    if (next != kMax32) {
      if (next < table.size() && next < kMax16 && same(table[next])) return next;
      return line.fail(format("before this, the link that follows in the rank's table, not %u.t%u", p.rank, p.tag));
    }
    const auto found = std::find_if(table.begin(), table.end(), same);
    if (found == table.end())
      return line.fail(format("before this, a link of the rank's table, not %u.t%u", p.rank, p.tag));
    const auto k = static_cast<uint64_t>(found - table.begin());
    if (k > kMax16) return line.fail("before this, one of the first 65536 links of the rank's table");
    return static_cast<uint32_t>(k);
  }

  Plan plan_;
  State state_ = State::header;
  uint32_t lanes_ = 0, steps_ = 0;  // announced by the line of the last rank
};

}  // namespace

const char* collective_name(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::barrier:
      return "barrier";
    case Collective::reduce:
      return "reduce";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::gather:
      return "gather";
    case Collective::scatter:
      return "scatter";
  }
  return "unknown collective";
}

std::string step_text(const RankPlan& plan, uint32_t rank, uint32_t lane, uint32_t i) {
  const uint32_t at = plan.lanes[lane].first + i;
  const Step& s = plan.steps[at];
  std::string text;
  const auto part = [&](const std::string& t) { text += (text.empty() ? "" : "; ") + t; };
  for (uint32_t d = 0; d < s.ndep; ++d) {
    const Dep& dep = plan.deps[plan.first_dep[at] + d];
    text += format("%s l%u s%u", d == 0 ? "after" : ",", dep.lane, dep.step);
    if (dep.lag > 0) text += format(" lag %u", dep.lag);
  }
  if (s.operands() > 0) part(value_text(plan, s));
  if (s.has(kPost)) part("post");
  if (s.has(kStore)) part("store " + range_text(s, s.dst_buf(), s.dst));
  for (uint32_t k = 0; k < s.nsend; ++k) {
    if (k == 0)
      part("push " + peer_text(plan.out, s.send));
    else
      text += ", " + peer_text(plan.out, s.send + k);
  }
  if (!s.has(kLoad) && !s.has(kStore)) part(format(s.stride == 1 ? "blocks %u" : "blocks %u:%u", s.count, s.stride));
  return format("r%u l%u s%u: ", rank, lane, i) + text;
}

std::string to_text(const PlanInfo& info) {
  return format("plan format=%u name=%s collective=%s ranks=%u root=%u in=%u out=%u scratch=%u message_blocks=%u\n",
                kFormat, info.name.c_str(), collective_name(info.collective), info.nranks, info.root, info.chunks[0],
                info.chunks[1], info.chunks[2], info.message_blocks);
}

std::string to_text(const RankPlan& plan, uint32_t rank) {
  std::string text = format("rank %u lanes=%zu steps=%zu messages=%u blocks=%u\n", rank, plan.lanes.size(),
                            plan.steps.size(), plan.cost.messages, plan.cost.blocks);
  text += table_text("in", plan.in) + table_text("out", plan.out);
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    if (plan.lanes[lane].count == 0) text += format("  r%u l%u: idle\n", rank, lane);
    for (uint32_t i = 0; i < plan.lanes[lane].count; ++i) text += "  " + step_text(plan, rank, lane, i) + "\n";
  }
  return text;
}

std::string to_text(const Plan& plan) {
  std::string text = to_text(plan.info);
  for (uint32_t rank = 0; rank < plan.ranks.size(); ++rank) text += to_text(plan.ranks[rank], rank);
  return text;
}

Result<Plan> parse_plan(std::string_view text) { return Parser().run(text); }

}  // namespace hocket
