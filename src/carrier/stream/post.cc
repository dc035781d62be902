#include "carrier/stream/post.h"

#include "base/random.h"

namespace sluice::stream {
namespace {

constexpr std::size_t kTableLeast = 256;

std::size_t hash_of(const protocol::Address& address) {
  return mix(mix(address.low, address.high), std::uint64_t{address.port} << 32 | address.scope);
}

}  // namespace

Post::Post(const Socket& socket)
    : sender_(socket), family_(address_of(socket).storage.ss_family), table_(kTableLeast, kNone) {}

void Post::send(std::span<const protocol::Address> to,
                std::span<const std::byte, wire::kHeaderSize> header,
                std::span<const std::byte> payload) {
  Copy& copy = next_copy();
  copy.assign(header.begin(), header.end());
  copy.insert(copy.end(), payload.begin(), payload.end());
  for (const protocol::Address& address : to) target_of(address).waiting.push_back(&copy);
}

void Post::flush() {
  for (Target& target : std::span(targets_).first(targets_used_)) {
    for (const Copy* copy : target.waiting) sender_.add(*copy, {}, &target.socket_address);
  }
  sender_.flush();
  for (Target& target : std::span(targets_).first(targets_used_)) {
    table_[target.place] = kNone;
    target.waiting.clear();
  }
  copies_used_ = 0;
  targets_used_ = 0;
}

Post::Copy& Post::next_copy() {
  if (copies_used_ == copies_.size()) copies_.push_back(std::make_unique<Copy>());
  return *copies_[copies_used_++];
}

Post::Target& Post::target_of(const protocol::Address& address) {
  std::size_t place = place_of(address);
  if (table_[place] != kNone) return targets_[table_[place]];
  if (2 * (targets_used_ + 1) > table_.size()) {
    grow_table();
    place = place_of(address);
  }
  if (targets_used_ == targets_.size()) targets_.emplace_back();
  table_[place] = static_cast<std::uint32_t>(targets_used_);
  Target& target = targets_[targets_used_++];
  target.address = address;
  target.socket_address = to_socket(address, family_);
  target.place = place;
  return target;
}

std::size_t Post::place_of(const protocol::Address& address) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t place = hash_of(address) & mask;
  while (table_[place] != kNone && targets_[table_[place]].address != address) {
    place = (place + 1) & mask;
  }
  return place;
}

void Post::grow_table() {
  table_.assign(2 * table_.size(), kNone);
  for (std::size_t i = 0; i < targets_used_; ++i) {
    targets_[i].place = place_of(targets_[i].address);
    table_[targets_[i].place] = static_cast<std::uint32_t>(i);
  }
}

}  // namespace sluice::stream
