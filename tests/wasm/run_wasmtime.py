#!/usr/bin/env python3
"""Runs a program with wasmtime on all cores: run_wasmtime.py PROGRAM.wasm INPUTS OUTPUTS [ARGUMENT...]

INPUTS is a folder; OUTPUTS gets NAME.stdout, NAME.stderr and NAME.exit for each file. Prints the seconds of the runs,
without the compilation.
"""
import multiprocessing
import os
import sys
import time

import wasmtime

engine = module = arguments = None


def compile_program(path, all_arguments):
    global engine, module, arguments
    engine = wasmtime.Engine()
    module = wasmtime.Module.from_file(engine, path)
    arguments = all_arguments


def run_input(paths):
    source, target = paths
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    store = wasmtime.Store(engine)
    wasi = wasmtime.WasiConfig()
    wasi.argv = arguments
    wasi.stdin_file = source
    wasi.stdout_file = target + ".stdout"
    wasi.stderr_file = target + ".stderr"
    store.set_wasi(wasi)
    code = 0
    try:
        instance = linker.instantiate(store, module)
        instance.exports(store)["_start"](store)
    except wasmtime.ExitTrap as e:
        code = e.code
    except wasmtime.Trap:
        code = "trap"
    return code


def main():
    program, inputs, outputs = sys.argv[1:4]
    os.makedirs(outputs, exist_ok=True)
    names = sorted(os.listdir(inputs))
    work = [(os.path.join(inputs, n), os.path.join(outputs, n)) for n in names]
    start_arguments = (program, [os.path.basename(program)] + sys.argv[4:])
    with multiprocessing.Pool(initializer=compile_program, initargs=start_arguments) as pool:
        # The workers compile before their first input.
        pool.map(time.sleep, [0.05] * (4 * multiprocessing.cpu_count()), chunksize=1)
        start = time.monotonic()
        codes = pool.map(run_input, work, chunksize=8)
        print(f"{time.monotonic() - start:.4f}")
    for (_, target), code in zip(work, codes):
        with open(target + ".exit", "w") as file:
            file.write(str(code))


if __name__ == "__main__":
    main()
