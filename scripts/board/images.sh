#!/bin/sh
# Prepares boards in a box: QEMU, kernel and modules, the agent, the initramfs. Quick when nothing is to be done.
# Use: scripts/board/images.sh x86_64|arm64...
#   X86_64_AGENT=FILE       an agent that is built already, static or with libraries of this machine
#   AGENT_PROFILE=PROFILE   cargo's profile of the agents that are built here [default: board]
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
. scripts/board/machines.sh

kinds=""
for arch in "$@"; do machine "$arch"; kinds="$kinds $qemu_kind"; done
# shellcheck disable=SC2086 # a list of words
install_qemu "to emulate the board" $kinds
read_installed cpio
need_packages "to pack the board's initramfs" cpio
install_packages
for arch in "$@"; do
    machine "$arch"
    command -v "$qemu" >/dev/null 2>&1 || die "$qemu is missing: install QEMU to run a board"
    scripts/board/packages.sh "$arch"
    if [ "$arch" = x86_64 ] && [ -n "${X86_64_AGENT:-}" ]; then
        agent=$X86_64_AGENT
    else
        profile=${AGENT_PROFILE:-board}
        scripts/board/agent.sh "$arch" "$profile"
        agent=${CARGO_TARGET_DIR:-target}/$rust/$(profile_folder "$profile")/kinescope-agent
    fi
    # The board's own comes last.
    newest=$(ls -t "$initramfs" "$agent" "$images/made" scripts/board/init scripts/board/commands scripts/board/initramfs.sh 2>/dev/null | head -n 1)
    [ "$newest" = "$initramfs" ] && [ -e "$initramfs_with_drivers" ] || scripts/board/initramfs.sh "$arch" "$agent"
done
