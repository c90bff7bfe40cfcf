// Requests and replies over a stream socket, each a header of 64 bytes and what it announces. Who
// asks for states or answers turns is served here, from the socket to the hall and back, on the
// client's own thread; all else is left to the caller, who can do everything.
#pragma once

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <cerrno>
#include <ctime>

#include "hall.hpp"

namespace playmill {

// The same as that of a slot in shared memory; see serving/ring.py.
struct FrameHeader {
  std::uint64_t seq, ack;
  std::uint32_t call, hall, rows;
  std::uint32_t size;  // bytes that follow
  std::uint32_t code;
  std::uint8_t spare[28];
};
static_assert(sizeof(FrameHeader) == 64);

// How wide the columns of a hall are.
struct HallWidths {
  std::size_t seats = 0, legal = 0, observation = 0;
};

// One client. `memory` holds one frame at a time: header, request, and after that the reply.
class FrameDesk {
 public:
  FrameDesk(int socket, std::uint8_t* memory, std::size_t bytes, std::size_t most_rows, double patience)
      : socket_(socket), memory_(memory), bytes_(bytes), most_rows_(most_rows) {
    // A client that stops in the middle of a frame, or stops reading, is given up after that time.
    timeval wait;
    wait.tv_sec = static_cast<time_t>(patience);
    wait.tv_usec = static_cast<suseconds_t>((patience - static_cast<double>(wait.tv_sec)) * 1e6);
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  }

  // From now on requests for this hall are answered here.
  void know(std::size_t number, AnyHall& hall, const HallWidths& widths) {
    if (number >= halls_.size()) halls_.resize(number + 1);
    halls_[number] = {&hall, widths};
  }

  // Answers requests until one comes that is the caller's: it lies in the memory then, or only its
  // header if it is longer than that. False once the client has hung up or was given up.
  bool next() {
    while (read(memory_, sizeof(FrameHeader), true)) {
      const FrameHeader head = header();
      if (head.size > bytes_ - sizeof head) return true;
      if (!read(memory_ + sizeof head, head.size, false)) return false;
      const Region found = answer(head);
      if (found.begin == 0) return true;
      if (!reply(found)) return false;
    }
    return false;
  }

  // Sends the header and the reply that begins at `begin`; false if the client does not take it.
  bool reply(std::size_t begin) { return reply({begin, begin + header().size}); }

 private:
  struct Known {
    AnyHall* hall = nullptr;
    HallWidths widths;
  };
  struct Region {
    std::size_t begin = 0, end = 0;
  };

  // Columns one after another at multiples of 64 bytes, as columns.py lays them.
  struct Cursor {
    std::uint8_t* memory;
    std::size_t at;

    template <class T>
    T* take(std::size_t count) {
      T* place = reinterpret_cast<T*>(memory + at);
      at += (count * sizeof(T) + 63) / 64 * 64;
      return place;
    }
  };

  FrameHeader header() const {
    FrameHeader head;
    std::memcpy(&head, memory_, sizeof head);
    return head;
  }

  // Where the reply lies; nothing where this request is not for here.
  Region answer(FrameHeader head) {
    constexpr std::uint32_t kStates = 1, kSubmit = 2;
    const bool states = head.call == kStates;
    const Known known = head.hall < halls_.size() ? halls_[head.hall] : Known{};
    const std::size_t n = head.rows;
    if (known.hall == nullptr || n > most_rows_ || !(states || head.call == kSubmit)) return {};
    Cursor at{memory_, sizeof head};
    Places places;
    places.rows = n;
    places.game = at.take<const std::uint64_t>(n);
    places.seat = at.take<const std::uint8_t>(n);
    places.key = at.take<const std::uint8_t>(n * kKeyBytes);
    const auto* turn = states ? nullptr : at.take<const std::uint32_t>(n);
    const auto* action = states ? nullptr : at.take<const std::int32_t>(n);
    if (head.size != at.at - sizeof head) return {};
    Region found{at.at, 0};
    if (states) {
      const auto& [seats, legal, observation] = known.widths;
      const StateColumns out{at.take<std::uint8_t>(n),         at.take<std::uint32_t>(n),
                             at.take<std::uint8_t>(n),         at.take<std::uint8_t>(n),
                             at.take<std::uint8_t>(n),         at.take<float>(n * seats),
                             at.take<std::uint8_t>(n * legal), at.take<std::uint8_t>(n * observation)};
      found.end = at.at;
      if (found.end > bytes_) return {};
      known.hall->states(places, out);
    } else {
      const AnswerColumns out{at.take<std::uint8_t>(n), at.take<std::uint32_t>(n), at.take<std::uint8_t>(n)};
      found.end = at.at;
      if (found.end > bytes_ || known.hall->draining()) return {};
      known.hall->submit(places, turn, action, static_cast<std::uint64_t>(std::time(nullptr)), out);
    }
    head.ack = head.seq;
    head.size = static_cast<std::uint32_t>(found.end - found.begin);
    head.code = 0;
    std::memcpy(memory_, &head, sizeof head);
    return found;
  }

  // Between two frames a client may be quiet as long as it likes.
  bool read(std::uint8_t* to, std::size_t size, bool between_frames) {
    std::size_t have = 0;
    while (have < size) {
      const ssize_t got = recv(socket_, to + have, size - have, 0);
      if (got == 0) return false;
      if (got > 0) {
        have += static_cast<std::size_t>(got);
      } else if (errno != EINTR && !(errno == EAGAIN && between_frames && have == 0)) {
        return false;
      }
    }
    return true;
  }

  bool reply(Region found) {
    iovec parts[2] = {{memory_, sizeof(FrameHeader)}, {memory_ + found.begin, found.end - found.begin}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    while (parts[0].iov_len + parts[1].iov_len > 0) {
      const ssize_t sent = sendmsg(socket_, &message, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return false;
      std::size_t left = static_cast<std::size_t>(sent);
      for (iovec& part : parts) {
        const std::size_t gone = std::min(left, part.iov_len);
        part.iov_base = static_cast<std::uint8_t*>(part.iov_base) + gone;
        part.iov_len -= gone;
        left -= gone;
      }
    }
    return true;
  }

  int socket_;
  std::uint8_t* memory_;
  std::size_t bytes_, most_rows_;
  std::vector<Known> halls_;
};

}  // namespace playmill
