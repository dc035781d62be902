// What the daemon says of an exception that ends it.
#pragma once

#include <exception>
#include <string>

namespace sluice::daemon {

// Memory only where it was memory: an allocation, or a thread that could not be started. Anything
// else says itself what it is.
std::string words_for(const std::exception& error);

}  // namespace sluice::daemon
