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

# python_environment FOLDER PACKAGE…: a virtual environment with these packages from PyPI. The torch
# there is the current one and takes some 5 GB and a minute or two.
python_environment() {
  local folder=$1
  shift
  local wanted="$*"
  [ "$(cat "$folder/made-of" 2>/dev/null)" = "$wanted" ] && return 0
  say "making $folder with $wanted (about 5 GB, once)"
  rm -rf "$folder"
  /usr/bin/python3 -m venv "$folder" &&
    "$folder/bin/pip" install --quiet --disable-pip-version-check "$@" &&
    printf '%s\n' "$wanted" >"$folder/made-of"
}

BUILD_PACKAGES=(g++ cmake ninja-build libhwy-dev libfmt-dev libcli11-dev nlohmann-json3-dev
  libcpp-httplib-dev)
TEST_PACKAGES=(libgtest-dev libbenchmark-dev clang-14 clang-tidy-14 libclang-rt-14-dev llvm-14
  ccache python3 python3-venv python3-pip python3-numpy python3-torch openmpi-bin libopenmpi3
  iproute2 nftables git)
PYTHON_PACKAGES=(torch numpy accelerate lightning transformers scikit-build-core)
