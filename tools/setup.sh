# Sourced by ./run and ./test: says what it does, installs what is missing, knows the machine.
# Debian 12 as root. A second call finds everything and changes nothing.

say() { printf '\n== %s\n' "$*"; }

# install_missing PACKAGE…: through apt, only those that are not there yet.
install_missing() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "installing ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    echo "These packages are missing and only root can install them: ${missing[*]}" >&2
    return 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update &&
    apt-get -qq -y install --no-install-recommends "${missing[@]}" >/dev/null
}

BUILD_PACKAGES=(g++ cmake ninja-build pkg-config libhwy-dev libfmt-dev libcli11-dev
  nlohmann-json3-dev)
TEST_PACKAGES=(libgtest-dev libbenchmark-dev clang-14 clang-tidy-14 libclang-rt-14-dev
  llvm-14 python3 git)
