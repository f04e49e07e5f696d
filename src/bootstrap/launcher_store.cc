#include "bootstrap/launcher_store.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/log.h"
#include "base/text.h"
#include "bootstrap/board.h"
#include "bootstrap/interfaces.h"
#include "bootstrap/tcp_store.h"

namespace hocket {
namespace {

std::string to_hex(const hktUniqueId& id) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : id.internal) {
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

Result<Contact> from_hex(const std::string& text) {
  hktUniqueId id{};
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  bool good = text.size() == 2 * sizeof id.internal;
  for (size_t i = 0; good && i < sizeof id.internal; ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    good = high >= 0 && low >= 0;
    id.internal[i] = static_cast<char>(high << 4 | low);
  }
  if (good) {
    if (Result<Contact> contact = read_unique_id(id); contact) return contact;
  }
  // hktRemoteError: a rank 0 of another version may be replaced yet.
  return error(hktRemoteError, "what rank 0 left with the launcher is no address of Hocket: %s",
               in_quotes(text, 40).c_str());
}

// Rank and size by the environment and by the server must agree.
Status take_seat(Identity& me, const Board::Seat& seat) {
  const auto agree = [&](const char* what, int& mine, int theirs) -> Status {
    if (theirs < 0) return {};
    if (mine >= 0 && mine != theirs) {
      return error(hktInvalidUsage,
                   "the %s of this process is %d by its environment variables, and %d by the server of %s: unset "
                   "variables that were left over from another launch",
                   what, mine, theirs, me.launcher.c_str());
    }
    mine = theirs;
    return {};
  };
  HKT_TRY(agree("rank", me.rank, seat.rank));
  HKT_TRY(agree("number of ranks", me.nranks, seat.nranks));
  return check_rank(me.rank, me.nranks);
}

Result<std::unique_ptr<Board>> open_board(const Identity& me, Deadline deadline) {
  if (const auto* torch = std::get_if<TorchPlace>(&me.place)) return open_torch_board(*torch, me, deadline);
  if (const auto* pmi = std::get_if<PmiPlace>(&me.place)) return open_pmi_board(*pmi, me, deadline);
  if (std::holds_alternative<PmixPlace>(me.place)) return open_pmix_board(me, deadline);
  if (const auto* horovod = std::get_if<HorovodPlace>(&me.place)) return open_horovod_board(*horovod, me, deadline);
  return error(hktInternalError, "no place for the ranks to meet");
}

// Rank 0 listens where it did the last time, under a nonce of its own.
Result<std::unique_ptr<Store>> host_again(const Contact& contact, const TcpMember& member, Deadline deadline) {
  std::vector<Fd> listeners;
  for (const Address& address : contact.addresses) {
    Result<Fd> fd = listen_on(address);
    if (!fd) {
      return error(fd.error().code,
                   "%s: the launcher's server takes one notice per process, so that rank 0 has to listen there again: "
                   "make further communicators from the first (hktCommDup, hktCommSplit)",
                   fd.error().text.c_str());
    }
    listeners.push_back(std::move(*fd));
  }
  return host_tcp_store(std::move(listeners), member, deadline);
}

Result<std::unique_ptr<Store>> meet_by_board(Identity& me, const SharedSecret& secret, Deadline deadline) {
  // One rank needs nobody.
  if (me.nranks == 1) {
    HKT_TRY(check_rank(me.rank, me.nranks));
    return host_tcp_store(std::vector<Fd>(), TcpMember{}, deadline);
  }
  HKT_ASSIGN(const std::unique_ptr<Board> board, open_board(me, deadline));
  HKT_TRY(take_seat(me, board->seat()));
  TcpMember member{me.rank, me.nranks, 0, "rank 0, as " + me.launcher + " knows it,", secret};
  if (const auto earlier = board->earlier()) {
    HKT_ASSIGN(Contact contact, from_hex(*earlier));
    member.nonce = contact.nonce += me.bring_up;
    if (me.rank == 0) return host_again(contact, member, deadline);
    return join_tcp_store([&]() -> Result<Contact> { return contact; }, member, deadline);
  }
  if (me.rank == 0) {
    HKT_ASSIGN(OpenedId opened, open_unique_id());
    HKT_TRY(board->post(to_hex(opened.id), deadline));
    member.nonce = opened.nonce;
    return host_tcp_store(std::move(opened.listeners), member, deadline);
  }
  const auto ask = [&]() -> Result<Contact> {
    HKT_ASSIGN(const std::string notice, board->read(deadline));
    return from_hex(notice);
  };
  // Who reads in vain until the deadline has more to say of it than the one that connects.
  HKT_TRY(ask());
  return join_tcp_store(ask, member, deadline);
}

std::string in_words(const std::vector<uint16_t>& ports) {
  std::string out = ports.size() == 1 ? "the port" : "the ports";
  for (size_t i = 0; i < ports.size(); ++i) out += (i == 0 ? " " : ", ") + std::to_string(ports[i]);
  return out;
}

// Rank 0 listens at the first port of the list that is free on all its addresses.
Result<std::unique_ptr<Store>> host_search(const SearchPlace& place, const TcpMember& member, Deadline deadline) {
  HKT_ASSIGN(const std::vector<Interface> interfaces, usable_interfaces());
  std::string why;
  for (const uint16_t port : place.ports) {
    std::vector<Fd> listeners;
    bool taken = false;
    for (const Interface& interface : interfaces) {
      Address address = interface.address;
      address.set_port(port);
      Result<Fd> fd = listen_on(address);
      if (fd) {
        listeners.push_back(std::move(*fd));
        continue;
      }
      why = fd.error().text;
      if (fd.error().code != hktInvalidUsage) HKT_INFO(init, (LogId{0, member.nranks}), "%s", why.c_str());
      taken = taken || fd.error().code == hktInvalidUsage;
    }
    if (!taken && !listeners.empty()) return host_tcp_store(std::move(listeners), member, deadline);
  }
  return error(hktInvalidUsage,
               "rank 0 of %s cannot listen on %s, where the other ranks look for it (%s): reserve some (srun "
               "--resv-ports), set HOCKET_PORT_RANGE, or set MASTER_ADDR and MASTER_PORT",
               place.job.c_str(), in_words(place.ports).c_str(), why.c_str());
}

// Which addresses are tried in one round: first this host's own and those of the likeliest host, later others, some at
// a time.
class Search {
 public:
  Search(const SearchPlace& place, Family family) : place_(place), family_(family) {}

  Result<Contact> next() {
    Contact out;
    out.nonce = place_.nonce;
    const bool first = round_++ < kFirstRounds;
    if (first || round_ % 2 == 0) {
      HKT_ASSIGN(const std::vector<Interface> mine, usable_interfaces());
      for (const Interface& interface : mine) add(interface.address, out);
      add_host(place_.hosts.empty() ? "localhost" : place_.hosts.front(), out);
    } else {
      for (size_t i = 0; i < std::min(kHostsAtOnce, place_.hosts.size()); ++i) {
        add_host(place_.hosts[at_], out);
        at_ = (at_ + 1) % place_.hosts.size();
      }
    }
    if (out.addresses.empty()) return error(hktRemoteError, "%s", unknown_.c_str());
    return out;
  }

 private:
  static constexpr int kFirstRounds = 3;
  static constexpr size_t kHostsAtOnce = 16;

  void add(Address address, Contact& out) const {
    for (const uint16_t port : place_.ports) {
      address.set_port(port);
      out.addresses.push_back(address);
    }
  }
  void add_host(const std::string& host, Contact& out) {
    Result<std::vector<Address>> found = resolve({host, place_.ports.front()}, family_);
    if (!found) {
      unknown_ = found.error().text;
      return;
    }
    for (const Address& address : *found) add(address, out);
  }

  const SearchPlace& place_;
  const Family family_;
  int round_ = 0;
  size_t at_ = 0;
  std::string unknown_ = "no host is known";
};

std::string names(const std::vector<std::string>& hosts) {
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(hosts.size(), 8); ++i) out += (i > 0 ? ", " : "") + hosts[i];
  return hosts.size() > 8 ? out + ", ..." : out;
}

Result<std::unique_ptr<Store>> meet_by_search(const SearchPlace& place, const Identity& me, const SharedSecret& secret,
                                              Deadline deadline) {
  HKT_TRY(check_rank(me.rank, me.nranks));
  const TcpMember member{me.rank,
                         me.nranks,
                         place.nonce + me.bring_up,
                         format("rank 0 of %s, looked for on %s at %s,", place.job.c_str(), names(place.hosts).c_str(),
                                in_words(place.ports).c_str()),
                         secret,
                         true};
  if (me.rank == 0) {
    return me.nranks == 1 ? host_tcp_store(std::vector<Fd>(), member, deadline) : host_search(place, member, deadline);
  }
  HKT_ASSIGN(const Family family, socket_family());
  Search search(place, family);
  return join_tcp_store(
      [&]() -> Result<Contact> {
        HKT_ASSIGN(Contact contact, search.next());
        contact.nonce = member.nonce;
        return contact;
      },
      member, deadline);
}

}  // namespace

Result<Fd> connect_to_server(const HostPort& where, const char* what, Deadline deadline) {
  HKT_ASSIGN(const Family family, socket_family());
  constexpr int kPatienceMs = 3000;  // for one address
  Error last;
  do {
    Result<std::vector<Address>> addresses = resolve(where, family);
    if (!addresses) last = std::move(addresses.error());
    for (size_t i = 0; addresses && i < addresses->size(); ++i) {
      Result<Fd> fd = connect_to((*addresses)[i], Deadline::in_ms(deadline.left_ms(kPatienceMs)));
      if (fd) return fd;
      last = std::move(fd.error());
    }
    if (last.code != hktRemoteError && last.code != hktTimeout) return last;
    std::this_thread::sleep_for(std::chrono::milliseconds(deadline.left_ms(50)));
  } while (!deadline.passed());
  return error(hktTimeout, "%s at %s:%u cannot be reached: %s: is it running, and may this host connect to it?", what,
               where.host.c_str(), where.port, last.text.c_str());
}

Result<std::unique_ptr<Store>> open_launcher_store(Identity& me, const SharedSecret& secret, Deadline deadline) {
  if (const auto* search = std::get_if<SearchPlace>(&me.place)) return meet_by_search(*search, me, secret, deadline);
  return meet_by_board(me, secret, deadline);
}

}  // namespace hocket
