"""Training steps of the engine's peers on a GPU, served in a process of their own.

python -m benchmarks.peers.gpu_steps SYSTEM

PyTorch and JAX run the simulation of gpu_states.py. TensorCircuit-NG runs its own circuits under
`jax.jit` and `jax.vmap`, in complex64. The layers of a model differ in their CNOTs or in the number
of their qubits, so that there is nothing to scan over.
"""

import gc
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.circuit_models import BenchmarkModel, RandomInputs, model, random_inputs
from benchmarks.gpu_cases import Step, time_step
from benchmarks.peers.gates import gate_list
from benchmarks.peers.gpu_states import Array, Simulation
from benchmarks.subprocess_protocol import COMPARED_EXAMPLES, Channel, Message, TooLarge, versions
from common.processes import exit_with_parent

if TYPE_CHECKING:
    import torch

PACKAGES = {
    "torch eager": ("torch",),
    "torch graph": ("torch",),
    "torch compile": ("torch",),
    "jax": ("jax",),
    "tensorcircuit": ("tensorcircuit-ng", "jax"),
}
"""Distributions of each system; their versions are reported."""
SMALL_STATES, SMALL_WIDTH, WIDTH = 1 << 18, 3, 5
"""Qubits of a trained block: matrices of many qubits pay if the batch has many amplitudes."""
PEAK_SIDE, PEAK_REALS, PEAK_REPEATS = 8192, 1 << 28, 10
"""Rows of the matrices and reals of the arrays with which the rates of a device are measured."""


def make_step(
    system: str, definition: BenchmarkModel, data: RandomInputs, upstream: np.ndarray, device: str
) -> Step:
    """Build and compile one peer's training step.

    Args:
        system: One of PACKAGES.
        definition: The model.
        data: Angles [B, I] and parameters [P], copied to the device in each step.
        upstream: float32 [B, K], the derivatives by the values.
        device: "cpu", "cuda" or "cuda:N".

    Returns:
        A function that runs a step, and returns values [B, K] and the derivatives of
        sum(upstream * values) by the parameters [P].

    Raises:
        ValueError: A gate with data follows a trained one.
    """
    width = SMALL_WIDTH if len(upstream) << len(definition.inputs) < SMALL_STATES else WIDTH
    if system.startswith("torch"):
        flat = _torch_step(system, Simulation(definition, width), data, upstream, device)
    else:
        flat = _jax_step(system, definition, width, data, upstream, device)

    def step() -> tuple[np.ndarray, np.ndarray]:
        result = flat()
        return result[: upstream.size].reshape(upstream.shape), result[upstream.size :]

    return step


def _torch_step(
    system: str, simulation: Simulation, data: RandomInputs, upstream: np.ndarray, device: str
) -> Callable[[], np.ndarray]:
    """Return a step of PyTorch with automatic differentiation, whose result is flat."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    *constants, angles, parameters, weights = _map(
        lambda array: torch.tensor(array, device=device),
        (*simulation.constants, data.angles, data.parameters, upstream),
    )
    parameters.requires_grad_()
    forward = partial(simulation.values, torch, constants)
    if system == "torch compile":
        torch.compiler.reset()  # PyTorch counts compilations of a function, up to a limit
        forward = torch.compile(forward, fullgraph=True, dynamic=False)

    def differentiate() -> torch.Tensor:
        values = forward(angles, parameters)
        (gradient,) = torch.autograd.grad(values, parameters, weights)
        return torch.cat([values.detach().flatten(), gradient])

    run = _captured(differentiate) if system == "torch graph" else differentiate

    def step() -> np.ndarray:
        with torch.no_grad():
            angles.copy_(torch.from_numpy(data.angles))
            parameters.copy_(torch.from_numpy(data.parameters))
        result: np.ndarray = run().cpu().numpy()
        return result

    return step


def _captured(function: Callable[[], "torch.Tensor"]) -> Callable[[], "torch.Tensor"]:
    """Capture a function of the GPU in a CUDA graph; return a function that replays it."""
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # outside of the graph: libraries allocate their work space
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()

    def replay() -> torch.Tensor:
        graph.replay()
        return result

    return replay


def _jax_step(
    system: str,
    definition: BenchmarkModel,
    width: int,
    data: RandomInputs,
    upstream: np.ndarray,
    device: str,
) -> Callable[[], np.ndarray]:
    """Return a compiled step of JAX, whose result is flat."""
    import jax
    from jax import numpy as jnp

    constants: tuple = ()
    if system == "tensorcircuit":
        from benchmarks.peers.tensorcircuit_jax import readouts

        circuit = jax.vmap(partial(readouts, gate_list(definition)), in_axes=(0, None))
        values = lambda _, angles, weights: circuit(angles, weights)  # noqa: E731
    else:
        simulation = Simulation(definition, width)
        constants, values = simulation.constants, partial(simulation.values, jnp)

    def differentiate(
        constants: tuple, upstream: jax.Array, angles: jax.Array, parameters: jax.Array
    ) -> jax.Array:
        found, pull = jax.vjp(lambda weights: values(constants, angles, weights), parameters)
        return jnp.concatenate([found.reshape(-1), *pull(upstream)])

    kind, number = _split(device)
    fixed = jax.device_put((constants, upstream), jax.devices(kind)[number])
    with jax.default_matmul_precision("highest"):  # float32 products without TF32
        lowered = jax.jit(differentiate).lower(*fixed, data.angles, data.parameters)
    compiled = lowered.compile()
    return lambda: np.asarray(compiled(*fixed, data.angles, data.parameters))


def _split(device: str) -> tuple[str, int]:
    """Return the kind of a device and its number, which is 0 for "cuda"."""
    kind, _, number = device.partition(":")
    return kind, int(number or 0)


def _map(function: Callable[[np.ndarray], Array], arrays: tuple | np.ndarray) -> tuple:
    """Apply a function to each array of nested tuples."""
    if isinstance(arrays, tuple):
        return tuple(_map(function, array) for array in arrays)
    return function(arrays)


def start(system: str, device: str) -> None:
    """Import a system and begin to use its device, which takes seconds in a new process."""
    if system.startswith("torch"):
        import torch

        if device != "cpu":
            torch.cuda.set_device(_split(device)[1])  # for streams and graphs
        torch.zeros(1, device=device)
        return
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # other systems share the GPU
    import jax

    kind, number = _split(device)
    jax.device_put(0.0, jax.devices(kind)[number]).block_until_ready()
    if system == "tensorcircuit":
        import tensorcircuit  # noqa: F401


def time_case(system: str, request: Message) -> Message:
    """Measure a case.

    Args:
        system: One of PACKAGES.
        request: "device", and the case: "model", "qubits" and "batch".

    Returns:
        "seconds": median time of a step; "first_seconds": time from the circuit to the first
        result, without the imports; "values" [2, K] of the first examples, and "gradient" [P] of
        the sum of all values.

    Raises:
        TooLarge: The device's memory is too small.
    """
    definition = model(request["model"], request["qubits"])
    data = random_inputs(definition, request["batch"], None)
    upstream = np.ones((len(data.angles), len(definition.observables)), np.float32)
    begin = time.perf_counter()
    try:
        step = make_step(system, definition, data, upstream, request["device"])
        values, gradient = step()
        first_seconds = time.perf_counter() - begin
        seconds = time_step(step)
    except RuntimeError as error:  # both frameworks' errors are kinds of it
        if "out of memory" in str(error).lower():
            raise TooLarge("the device's memory is too small") from None
        raise
    return {
        "seconds": seconds,
        "first_seconds": first_seconds,
        "values": values[:COMPARED_EXAMPLES].tolist(),
        "gradient": gradient.tolist(),
    }


def measure_rates(device: str) -> Message:
    """Return the rates that PyTorch reaches on a GPU.

    Args:
        device: "cuda" or "cuda:N".

    Returns:
        "flops": real operations per second of a product of float32 matrices, without TF32;
        "device_bytes": bytes per second that a copy within the device's memory reads and writes.
    """
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    matrix = torch.rand(PEAK_SIDE, PEAK_SIDE, device=device)
    source = torch.rand(PEAK_REALS, device=device)
    target = torch.empty_like(source)
    work = {
        "flops": (lambda: torch.mm(matrix, matrix), 2.0 * PEAK_SIDE**3),
        "device_bytes": (lambda: target.copy_(source), 8.0 * PEAK_REALS),
    }
    rates = {}
    for name, (run, amount) in work.items():
        run()
        torch.cuda.synchronize(device)
        begin = time.perf_counter()
        for _ in range(PEAK_REPEATS):
            run()
        torch.cuda.synchronize(device)
        rates[name] = PEAK_REPEATS * amount / (time.perf_counter() - begin)
    return rates


def free_memory(system: str) -> None:
    """Free what a case used: other systems need the device's memory."""
    gc.collect()
    if system.startswith("torch"):
        import torch

        torch.cuda.empty_cache()  # does nothing without a GPU
    else:
        import jax

        jax.clear_caches()


def main() -> None:
    """Respond to requests: to "start" on a device, to measure its "rates", or a case."""
    exit_with_parent()  # a compilation must not outlive the benchmark
    channel, system = Channel(), sys.argv[1]

    def handle(request: Message) -> None:
        response: Message = {}
        refusal = ""
        try:
            if "start" in request:
                start(system, request["start"])
            elif "rates" in request:
                response = measure_rates(request["rates"])
            else:
                response = time_case(system, request)
        except TooLarge as reason:
            refusal = str(reason)
        free_memory(system)  # not before the exception is gone, which refers to what it used
        if refusal:
            raise TooLarge(refusal)
        channel.send(response)

    channel.serve({"versions": versions(PACKAGES[system])}, handle)


if __name__ == "__main__":
    main()
