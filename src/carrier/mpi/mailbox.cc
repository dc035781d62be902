#include "carrier/mpi/mailbox.h"

#include <algorithm>
#include <limits>

#include "carrier/ranks.h"

namespace sluice::mpi {
namespace {

constexpr std::size_t kMessageMax = std::numeric_limits<int>::max();  // MPI counts in int

Status check(int code, const char* what) {
  if (code == 0) return ok();
  return Error{Code::io, code, what};
}

}  // namespace

Mailbox::Mailbox(const Library& library, Comm comm, std::uint32_t rank, std::uint32_t workers)
    : mpi_(library),
      comm_(comm),
      rank_(rank),
      workers_(workers),
      receives_(workers, library.no_request),
      arrivals_(workers, Arrival::missing),
      buffers_(workers),
      messages_(workers) {
  sends_.reserve(std::size_t{2} * workers);
}

void Mailbox::open(int tag) {
  tag_ = tag;
  std::erase_if(sends_, [this](const Sending& one) { return one.request == mpi_.no_request; });
  std::fill(arrivals_.begin(), arrivals_.end(), Arrival::missing);
  arrivals_[rank_] = Arrival::here;
  here_count_ = 1;
}

Status Mailbox::send(std::uint32_t target, std::span<const std::byte> bytes) {
  if (bytes.size() > kMessageMax) {
    return Error{Code::io, 0, "mpi: a message of 2 GiB or more; use smaller chunks"};
  }
  if (target == rank_) {
    messages_[rank_] = bytes;
    return ok();
  }
  sends_.push_back({target, mpi_.no_request});
  return check(mpi_.isend(bytes.data(), static_cast<int>(bytes.size()), mpi_.byte,
                          static_cast<int>(target), tag_, comm_, &sends_.back().request),
               "mpi: cannot send");
}

// Messages are received at their own size: that of a rank which does something else may be any.
Status Mailbox::receive(std::span<const std::uint64_t> most) {
  while (!all_here()) {
    int found = 0;
    Message message = nullptr;
    Envelope envelope;
    SLUICE_TRY(check(mpi_.improbe(kAnySource, tag_, comm_, &found, &message, &envelope),
                     "mpi: cannot probe"));
    if (found == 0) break;
    SLUICE_TRY(accept(envelope, message, most));
  }
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    if (arrivals_[rank] != Arrival::receiving) continue;
    int done = 0;
    SLUICE_TRY(check(mpi_.test(&receives_[rank], &done, nullptr), "mpi: cannot receive"));
    if (done == 0) continue;
    arrivals_[rank] = Arrival::here;
    ++here_count_;
  }
  return ok();
}

Status Mailbox::accept(const Envelope& envelope, Message message,
                       std::span<const std::uint64_t> most) {
  const auto source = static_cast<std::uint32_t>(envelope.source);
  if (source >= workers_ || arrivals_[source] != Arrival::missing) {
    return Error{Code::io, 0, "mpi: a rank sent the same leg twice"};
  }
  int count = 0;
  SLUICE_TRY(check(mpi_.get_count(&envelope, mpi_.byte, &count), "mpi: a message without size"));
  const auto size = static_cast<std::size_t>(count);
  grow(buffers_[source], most.empty() ? size : std::max(size, most[source]));
  const auto into = buffers_[source].bytes().first(size);
  messages_[source] = into;
  arrivals_[source] = Arrival::receiving;
  return check(mpi_.imrecv(into.data(), count, mpi_.byte, &message, &receives_[source]),
               "mpi: cannot receive");
}

Result<bool> Mailbox::sends_are_done() {
  bool all = true;
  for (Sending& one : sends_) {
    int done = 0;
    SLUICE_TRY(check(mpi_.test(&one.request, &done, nullptr), "mpi: cannot send"));
    all = all && done != 0;
  }
  return all;
}

std::string Mailbox::missing() const {
  if (!all_here()) {
    return list_missing(workers_,
                        [this](std::uint32_t rank) { return arrivals_[rank] != Arrival::here; });
  }
  return list_missing(workers_,
                      [this](std::uint32_t rank) {
                        return std::ranges::any_of(sends_, [&](const Sending& one) {
                          return one.target == rank && one.request != mpi_.no_request;
                        });
                      }) +
         " (to receive what this rank sends)";
}

}  // namespace sluice::mpi
