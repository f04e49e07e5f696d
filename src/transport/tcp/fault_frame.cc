#include "transport/tcp/fault_frame.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/text.h"

namespace hocket::tcp {

size_t pack_fault(const Fault& fault, unsigned char* to) {
  const FaultHead head{static_cast<int32_t>(fault.code), fault.rank, fault.call};
  const size_t text = std::min(fault.text.size(), kFaultText);
  std::memcpy(to, &head, sizeof head);
  std::copy_n(fault.text.data(), text, reinterpret_cast<char*>(to) + sizeof head);  // the frame says how long it is
  return sizeof head + text;
}

Result<Fault> unpack_fault(const unsigned char* payload, size_t bytes, int nranks) {
  FaultHead head;
  std::memcpy(&head, payload, sizeof head);
  if (head.code <= hktSuccess || head.code > hktAborted || head.rank < -1 || head.rank >= nranks)
    return error(hktRemoteError, "a fault with code %d about rank %d", head.code, head.rank);
  const auto* text = reinterpret_cast<const char*>(payload) + sizeof head;
  return Fault{static_cast<Code>(head.code), head.rank, head.call,
               one_line(std::string_view(text, bytes - sizeof head))};
}

}  // namespace hocket::tcp
