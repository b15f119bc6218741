#!/bin/bash
# Build, test and measure the device library on this machine's GPU: tests/gpu_check.sh PYTHON [DEVICE=cuda] [FOLDER=benchmarks/gpu]
#
# It needs no network: nvcc, g++, cmake and ninja, and a Python (python3 if PYTHON is empty) with NumPy, Cirq and
# pytest; PyTorch, JAX and TensorCircuit-NG are measured if they are there. DEVICE=host practises without a GPU.
# Figures are written to FOLDER/gpu.json, and the tables of docs/gpu.md to FOLDER/gpu.md. On a GPU, at most 9 minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:-python3} device=cuda folder=benchmarks/gpu
for setting in "${@:2}"; do
	case $setting in
	DEVICE=cuda | DEVICE=host) device=${setting#*=} ;;
	FOLDER=?*) folder=${setting#*=} ;;
	*)
		echo "gpu-check: $setting is not a setting: pass DEVICE=cuda, DEVICE=host or FOLDER=folder" >&2
		exit 2
		;;
	esac
done
for package in cirq numpy pytest; do
	if ! "$python" -c "import $package"; then
		echo "gpu-check: $python has no package $package: set PYTHON to a Python with NumPy, Cirq and pytest" >&2
		exit 2
	fi
done
export GPU_CHECK=1 QFLEET_TEST_DEVICE=$device PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}. PYTHONUNBUFFERED=1
test_device=("$python" -m pytest -q -c /dev/null --rootdir=. --noconftest -p no:cacheprovider
	tests/native/test_device_engine.py tests/native/test_device_laws.py tests/native/test_device_kinds.py
	tests/native/test_device_density.py tests/native/test_device_initial_states.py
	tests/native/test_device_repeated_calls.py)
mkdir -p "$folder"

figures=$folder/gpu.json
benchmark=("$python" -m benchmarks.gpu --device "$device" --cpu --hvp --json "$figures"
	--peers "torch graph" jax "torch compile" tensorcircuit)
print_tables() {
	"$python" -m benchmarks.gpu_tables "$figures" | tee "$folder/gpu.md"
}

"$python" -m qfleet.native
if [[ $device == host ]]; then # without limits but that of peers: no machine is lent, and other work may slow this one
	"$python" -m qfleet.native.cuda --host
	"${test_device[@]}"
	"${benchmark[@]}" --qubits 4 --batches 1 32 --seconds 90 --case-seconds 40
	print_tables
	exit
fi
"$python" -m qfleet.native.cuda
# The parts end in 540 s together. One that fails or runs out of its time does not stop the others.
failed=()
part() {
	local name=$1 seconds=$2
	timeout "$seconds" "${@:3}" || {
		echo "gpu-check: $name ended with exit code $? (its limit was $seconds s)" >&2
		failed+=("$name")
	}
}
part tests 150 "${test_device[@]}" tests/native/test_device_frameworks.py tests/native/test_device_fork.py
rest=$((385 - SECONDS))
part benchmark "$rest" "${benchmark[@]}" --seconds $((rest - 10))
# All paths: states of lanes, of a thread block, of a cluster and in the device's memory, and recorded calls.
# The compilers that the tests start are not examined.
sanitize=(compute-sanitizer --target-processes application-only --error-exitcode 9)
part memcheck 75 "${sanitize[@]}" --tool memcheck "${test_device[@]}" \
	-k "wide_values and 14 or widest and 18-complex64 or after_a_larger and 12 or values and 5-3 or values and 2-17 or samples or density and 3-70 or undone or values and 9-2"
part racecheck 75 "${sanitize[@]}" --tool racecheck "${test_device[@]}" \
	-k "wide_values and 14-complex64 or widest and 18-complex64 or values and 5-3-complex64 or density and 4-5-complex64"
print_tables || failed+=(tables)
[[ ${#failed[@]} == 0 ]] || exit 1
