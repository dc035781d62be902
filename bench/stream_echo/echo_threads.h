// Threads of workers that begin together, and a server's thread beside them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "base/result.h"

namespace sluice::bench {

// Runs work(rank) on a thread each. The seconds that it took, or the first failure by rank.
inline Checked<double> run_together(std::uint32_t workers,
                                    const std::function<Verdict(std::uint32_t)>& work) {
  std::vector<Verdict> verdicts(workers, Nothing{});
  std::latch begin(workers + 1);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    threads.emplace_back([&, rank] {
      begin.arrive_and_wait();
      verdicts[rank] = work(rank);
    });
  }
  begin.arrive_and_wait();
  const auto start = std::chrono::steady_clock::now();
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  for (const Verdict& verdict : verdicts) SLUICE_TRY(verdict);
  return took.count();
}

// Serves on a thread of its own until it is left.
class Beside {
 public:
  Beside(const std::function<void()>& serve, const std::function<void()>& stop)
      : stop_(stop), thread_(serve) {}
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  ~Beside() { end(); }
  void end() {
    if (!thread_.joinable()) return;
    stop_();
    thread_.join();
  }

 private:
  std::function<void()> stop_;
  std::thread thread_;
};

}  // namespace sluice::bench
