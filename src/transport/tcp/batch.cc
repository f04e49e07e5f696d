#include "transport/tcp/batch.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace hocket::tcp {

void Batch::clear() {
  piece_ = pieces_ = staged_ = 0;
  bytes_ = 0;
  messages = 0;
}

void Batch::stage(const void* bytes, size_t n) {
  unsigned char* to = staging_.data() + staged_;
  std::memcpy(to, bytes, n);
  staged_ += n;
  bytes_ += n;
  if (pieces_ != 0) {
    iovec& last = list_[pieces_ - 1];
    if (static_cast<unsigned char*>(last.iov_base) + last.iov_len == to) {
      last.iov_len += n;
      return;
    }
  }
  homes_[pieces_] = {};
  list_[pieces_++] = {to, n};
}

void Batch::refer(const void* bytes, size_t n, unsigned char* home) {
  homes_[pieces_] = {home, n};
  list_[pieces_++] = {const_cast<void*>(bytes), n};
  bytes_ += n;
}

void Batch::reclaim() {
  for (size_t i = piece_; i < pieces_; ++i) {
    if (homes_[i].at == nullptr) continue;
    iovec& piece = list_[i];  // of the first one a part may have left
    unsigned char* to = homes_[i].at + (homes_[i].n - piece.iov_len);
    std::memcpy(to, piece.iov_base, piece.iov_len);
    piece.iov_base = to;
    homes_[i] = {};
  }
}

Result<bool> Batch::send(int fd) {
  ssize_t n = 0;
  do {
    if (piece_ + 1 == pieces_) {  // small messages: the shorter system call
      n = ::send(fd, list_[piece_].iov_base, list_[piece_].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    } else {
      msghdr message{};
      message.msg_iov = &list_[piece_];
      message.msg_iovlen = pieces_ - piece_;
      n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    // Out of kernel memory passes; a connection that is gone does not.
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM) return false;
    if (errno == EFAULT) return error(hktInvalidArgument, "the memory of a send buffer cannot be read");
    return error(hktRemoteError, "cannot send: %s", std::strerror(errno));
  }
  auto left = static_cast<size_t>(n);
  for (; piece_ < pieces_ && left >= list_[piece_].iov_len; ++piece_) left -= list_[piece_].iov_len;
  if (piece_ < pieces_) {  // the socket is full
    iovec& rest = list_[piece_];
    rest.iov_base = static_cast<unsigned char*>(rest.iov_base) + left;
    rest.iov_len -= left;
  }
  return true;
}

}  // namespace hocket::tcp
