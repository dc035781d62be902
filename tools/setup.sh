# Sourced by ./run, ./test and the tests that use torch: says what it does and why, installs what is
# missing, builds.
# Debian 12 as root. A second call finds everything, changes nothing and needs no network.

say() { printf '\n== %s\n' "$*"; }

complain() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

# need_space GIGABYTES WHAT: whether they are free where build/ is.
need_space() {
  local free
  free=$(df --output=avail --block-size=1M . | tail -n 1)
  [ "$free" -ge $(($1 * 1000)) ] && return 0
  complain "$2 needs about $1 GB in $PWD, and $((free / 1000)).$((free / 100 % 10)) GB are free;" \
    "free some, or put the folder on a larger disk"
  return 1
}

# install_missing WHY PACKAGE…: through apt, only those that are not there yet.
install_missing() {
  local why=$1 missing=() package log
  shift
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "installing ${missing[*]} ($why)"
  if [ "$(id -u)" -ne 0 ]; then
    complain "only root can install Debian packages, and these are missing: ${missing[*]}"
    return 1
  fi
  need_space 2 "installing packages" || return 1
  export DEBIAN_FRONTEND=noninteractive
  log=$(apt-get -qq update 2>&1 &&
    apt-get -qq -y install --no-install-recommends "${missing[@]}" 2>&1) && return 0
  printf '%s\n' "$log" | tail -n 5 >&2
  complain "apt-get could not install ${missing[*]}; what it said last is above"
  return 1
}

# share_environment FOLDER: where there is none yet, FOLDER becomes a link to a virtual environment
# of that name that all clones of this user share: the one with torch takes 6 GB, and minutes.
share_environment() {
  local shared
  shared=${XDG_CACHE_HOME:-$HOME/.cache}/sluice/$(basename "$1")
  [ -e "$1" ] && return 0
  mkdir -p "$(dirname "$1")" "$shared" && ln -sfn "$shared" "$1"
}

# python_environment FOLDER WHY PACKAGE…: a virtual environment with these packages from PyPI. One
# that is there gets what it lacks. The torch there is the current one, with all that GPUs need.
python_environment() {
  local folder=$1 why=$2 missing=() package have log size=""
  shift 2
  if ! "$folder/bin/python" -c '' 2>/dev/null; then
    # venv makes none in a link.
    /usr/bin/python3 -m venv --clear "$(realpath -m "$folder")" || return 1
  fi
  have=" $(cat "$folder/made-of" 2>/dev/null || true) "
  for package in "$@"; do
    [[ $have == *" $package "* ]] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  [[ " ${missing[*]} " == *" torch "* ]] && size="about 6 GB with torch, "
  say "installing ${missing[*]} from PyPI in $folder ($why; ${size}once)"
  [ -z "$size" ] || need_space 7 "PyTorch" || return 1
  log=$(mktemp -d)
  {
    "$folder/bin/pip" install --disable-pip-version-check --progress-bar off "${missing[@]}" 2>&1 &&
      touch "$log/done"
  } | tee "$log/said" | grep --line-buffered -E '^ +Downloading .*(MB|GB)' || true
  if [ -e "$log/done" ]; then
    printf '%s\n' "$(echo "$have ${missing[*]}" | xargs)" >"$folder/made-of"
    rm -r "$log"
    return 0
  fi
  tail -n 3 "$log/said" >&2
  rm -r "$log"
  complain "pip could not install ${missing[*]} from PyPI; what it said last is above. Accepted: a" \
    "network with PyPI or a mirror of it in pip's configuration"
  return 1
}

# cuda_compiler: sees to it that there is an nvcc of CUDA 13. Where the machine has none, it comes
# from PyPI, into build/cuda, which cmake/cuda.cmake looks into.
cuda_compiler() {
  local nvcc
  for nvcc in "${NVCC_PLACES[@]}"; do
    [[ $("$nvcc" --version 2>/dev/null) == *"release 13."* ]] && return 0
  done
  share_environment build/cuda || return 1
  python_environment build/cuda "to compile kernels for GPUs: 105 MB to fetch, 300 MB on disk" \
    "${CUDA_PACKAGES[@]}"
}

# build_release TARGET…: with GCC, in build/release; configured without tests where ./test has not
# been.
build_release() {
  need_space 1 "building" || return 1
  if [ ! -f build/release/build.ninja ]; then
    say "configuring (release, GCC)"
    cmake --preset release -DSLUICE_TESTS=OFF >/dev/null || return 1
  fi
  say "building $* (nothing to do the second time)"
  ninja -C build/release --quiet "$@"
}

# Less and less of what processors have, as oneDNN names it.
INSTRUCTION_SETS=(AVX512_CORE AVX2)

# usable_instructions PYTHON: torch's own bf16 product ends a process with SIGILL where a processor
# says that it has AMX and the (virtual) machine does not grant it, with no Sluice in it. Tried in a
# child; where that dies, torch is told to use less, here and in all that is started from here.
usable_instructions() {
  local set
  product_dies "$1" || return 0
  for set in "${INSTRUCTION_SETS[@]}"; do
    ONEDNN_MAX_CPU_ISA=$set product_dies "$1" && continue
    export ONEDNN_MAX_CPU_ISA=$set
    echo "torch's own bf16 product dies of an illegal instruction on this machine:" \
      "ONEDNN_MAX_CPU_ISA=$set is set"
    return 0
  done
  complain "torch's own bf16 product dies of an illegal instruction on this machine, also with" \
    "ONEDNN_MAX_CPU_ISA=${INSTRUCTION_SETS[*]}; what uses bf16 will fail"
}

product_dies() {  # PYTHON; not for want of torch
  local status=0
  {
    (
      ulimit -c 0
      exec "$1" -c 'import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a'
    ) || status=$?
  } >/dev/null 2>&1
  [ "$status" -eq $((128 + $(kill -l ILL))) ]
}

BUILD_PACKAGES=(g++ cmake ninja-build libhwy-dev libfmt-dev libcli11-dev nlohmann-json3-dev)
TEST_PACKAGES=(libgtest-dev libbenchmark-dev clang-14 clang-tidy-14 libclang-rt-14-dev llvm-14
  ccache python3 python3-venv python3-pip python3-numpy python3-torch openmpi-bin libopenmpi3
  libopenmpi-dev iproute2 nftables git chromium)
NVCC_PLACES=("${CUDACXX:-nvcc}" nvcc /usr/local/cuda/bin/nvcc)
# Of 13.0, because PTX of a later one cannot be used by the first drivers of CUDA 13. By themselves:
# the torch of PYTHON_PACKAGES brings parts of another version.
CUDA_PACKAGES=('nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-runtime==13.0.*'
  'nvidia-cuda-cccl==13.0.*' 'nvidia-nvvm==13.0.*')
PYTHON_PACKAGES=(torch numpy accelerate lightning transformers scikit-build-core)
