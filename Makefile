# Thin: every target is a script that says what it does and why. `make help` lists them.
.POSIX:
.PHONY: help run test test-full python bench fuzz mesa test-mesa test-cuda test-recordings board dist clean-target clean-fuzz clean-mesa clean-board

help:
	@echo "make run                     build, open the window on a sample recording (RECORDING=FILE: another one)"
	@echo "make test                    every test that needs neither a virtual machine nor a second build"
	@echo "make test-full               the rest: boards in QEMU, arm64, lints, real windows, other readers; TESTS=NAME: only tests whose names contain it"
	@echo "make test-recordings         the same, and fail when a test on real recordings was skipped"
	@echo "make python                  package Kinescope for Python into target/python/wheels (PROFILE=dev: a fast build)"
	@echo "make bench                   measure; BENCH=NAME: only that one (import, open, scale, page_tables, xref, state, screen, diff, images, filter, event_table, per_action, compute, trace, size, channel_plan, cuda_hooks, software_mali, campaign)"
	@echo "make mesa                    build Mesa with the panfrost driver into .mesa, once: what record --with panfrost runs on"
	@echo "make test-mesa               ten GLES compute programs on that Mesa, recorded live, checked, replayed, checked again; and three scenes"
	@echo "make test-cuda               on a machine with an NVIDIA GPU: CUDA programs and nets recorded, replayed, tuned (PARTS=...)"
	@echo "make board                   a machine in QEMU with graphics devices and the agent (ARCH=x86_64|arm64 DEVICES=... PORT=N MEM=MB IOMMU=yes DRIVERS=yes SHARE=FOLDER)"
	@echo "make dist                    package a release build into target/dist: archive, .deb, static agents"
	@echo "make fuzz                    TARGET=NAME SECONDS=N: fuzz one byte reader (no TARGET: each in turn)"
	@echo "make clean-target            remove everything that was built"
	@echo "make clean-fuzz              remove what fuzzing built and found"
	@echo "make clean-board             remove the boards' kernels and unpacked packages"
	@echo "make clean-mesa              remove the built Mesa and its source"

run:
	@scripts/run.sh $(RECORDING)

test:
	@scripts/test.sh

test-full:
	@TESTS="$(TESTS)" scripts/test-full.sh

test-recordings:
	@scripts/test-recordings.sh

python:
	@scripts/python.sh

bench:
	@scripts/bench.sh $(BENCH)

mesa:
	@scripts/mesa.sh

test-mesa:
	@scripts/test-mesa.sh

test-cuda:
	@scripts/test-cuda.sh $(PARTS)

board:
	@ARCH="$(ARCH)" DEVICES="$(DEVICES)" PORT="$(PORT)" MEM="$(MEM)" IOMMU="$(IOMMU)" DRIVERS="$(DRIVERS)" SHARE="$(SHARE)" scripts/board.sh

dist:
	@scripts/dist.sh

fuzz:
	@scripts/fuzz.sh "$(TARGET)" "$(SECONDS)"

clean-target:
	rm -rf target

clean-fuzz:
	rm -rf target/fuzz

clean-mesa:
	rm -rf .mesa

clean-board:
	rm -rf .board
