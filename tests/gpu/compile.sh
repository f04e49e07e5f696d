#!/usr/bin/env bash
# Compiles planner_kernel.cu for sm_80 and sm_90: a planner that is no device code does not get through. Nothing is run.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=build/gpu
rm -rf $out
mkdir -p $out
# One kernel per line PLANNER(Type); each must be in the cubin, and no planner may be missing.
mapfile -t kernels < <(sed -nE 's/^PLANNER\((\w+)\).*/\1/p' tests/gpu/planner_kernel.cu)
for type in $(sed -nE 's/^ *entry<(\w+)>\(\),$/\1/p' src/algorithms/catalog.cc); do
  [[ " ${kernels[*]} " == *" $type "* ]] || { echo "gpu: planner_kernel.cu lacks PLANNER($type)" >&2; exit 1; }
done
for arch in sm_80 sm_90; do
  cubin=$out/planner_kernel.$arch.cubin
  nvcc -std=c++20 -arch=$arch -Werror all-warnings -Iinclude -Isrc -cubin -o $cubin tests/gpu/planner_kernel.cu
  for kernel in "${kernels[@]}"; do
    grep -qa "plan_$kernel" $cubin || { echo "gpu: no kernel for $kernel in $cubin" >&2; exit 1; }
  done
  echo "gpu: $arch: ${kernels[*]}"
done
