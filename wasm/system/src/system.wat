;; System calls of one copy of a program, as one WebAssembly module with two memories.
;;
;; Memory `$program` is the memory of the program. All pointers into it come from the program and are hostile: each one
;; is checked before its use. Memory `$own` belongs to this module; the host fills it and reads it. Its header has the
;; offsets of `layout.rs`:
;;
;;   0x00 magic            0x04 version
;;   0x08 arguments        0x0c their count       0x10 their bytes
;;   0x14 environment      0x18 its count         0x1c its bytes
;;   0x20 input            0x24 its length        0x28 its capacity    0x2c position of the next read
;;   0x30 output           0x34 its capacity      0x38 its length
;;   0x40 error output     0x44 its capacity      0x48 its length
;;   0x50 log              0x54 its capacity (entries)                 0x58 number of calls (i64)
;;   0x60 clock (i64, ns)  0x68 step of the clock for each call (i64, ns)
;;   0x70 seed (i64)       0x78 input number (i64)                     0x80 next random block (i64)
;;   0x88 bytes of both outputs until now (i64)                        0x90 their limit (i64)
;;   0x98 bit mask of closed descriptors          0x9c flags of descriptors 0, 1 and 2 (one byte each)
;;   0xa0 1 if the request in the input was taken    0xa4 bytes that the current call moved
;;   0xb0 one random block (16 bytes)
;;
;; An entry of the log has 32 bytes: function, result, first argument, second argument (i32 each), clock (i64), bytes
;; moved, low half of the call's number (i32 each).
(module
  ;; Empties the output buffer of stream 1 or 2.
  (import "kinescope_host" "drain" (func $host_drain (param i32)))
  ;; Writes the next request to the input region and its length to the header. Returns 0 if there is none.
  (import "kinescope_host" "next" (func $host_next (result i32)))
  ;; Ends the copy: kind 0 is an exit with a code, any other kind is a trap. Never returns.
  (import "kinescope_host" "exit" (func $host_exit (param $kind i32) (param $code i32)))
  (import "program" "memory" (memory $program 0))
  (memory $own (export "memory") 1 1)

  ;; -- common parts ----------------------------------------------------------------------------------------------

  ;; Returns whether `length` bytes at `pointer` are inside the program's memory.
  (func $in_range (param $pointer i32) (param $length i64) (result i32)
    (i64.le_u
      (i64.add (i64.extend_i32_u (local.get $pointer)) (local.get $length))
      (i64.shl (i64.extend_i32_u (memory.size $program)) (i64.const 16))))

  ;; Appends the current call to the log, advances the clock and returns `result`.
  (func $finish (param $function i32) (param $result i32) (param $first i32) (param $second i32) (result i32)
    (local $number i64) (local $entry i32)
    (local.set $number (i64.load $own offset=0x58 (i32.const 0)))
    (if (i64.lt_u (local.get $number) (i64.extend_i32_u (i32.load $own offset=0x54 (i32.const 0))))
      (then
        (local.set $entry
          (i32.add
            (i32.load $own offset=0x50 (i32.const 0))
            (i32.shl (i32.wrap_i64 (local.get $number)) (i32.const 5))))
        (i32.store $own (local.get $entry) (local.get $function))
        (i32.store $own offset=4 (local.get $entry) (local.get $result))
        (i32.store $own offset=8 (local.get $entry) (local.get $first))
        (i32.store $own offset=12 (local.get $entry) (local.get $second))
        (i64.store $own offset=16 (local.get $entry) (i64.load $own offset=0x60 (i32.const 0)))
        (i32.store $own offset=24 (local.get $entry) (i32.load $own offset=0xa4 (i32.const 0)))
        (i32.store $own offset=28 (local.get $entry) (i32.wrap_i64 (local.get $number)))))
    (i64.store $own offset=0x58 (i32.const 0) (i64.add (local.get $number) (i64.const 1)))
    (i32.store $own offset=0xa4 (i32.const 0) (i32.const 0))
    (i64.store $own offset=0x60 (i32.const 0)
      (i64.add (i64.load $own offset=0x60 (i32.const 0)) (i64.load $own offset=0x68 (i32.const 0))))
    (local.get $result))

  ;; Sets the number of bytes that the current call moved.
  (func $set_moved (param $bytes i32)
    (i32.store $own offset=0xa4 (i32.const 0) (local.get $bytes)))

  ;; Returns whether `descriptor` is 0, 1 or 2 and open.
  (func $is_open (param $descriptor i32) (result i32)
    (i32.and
      (i32.le_u (local.get $descriptor) (i32.const 2))
      (i32.eqz
        (i32.and
          (i32.const 1)
          (i32.shr_u (i32.load $own offset=0x98 (i32.const 0)) (local.get $descriptor))))))

  ;; Checks `count` vectors (pointer, length) at `vectors`. Returns the error, or 0 and leaves the sum at 0xa4.
  (func $check_vectors (param $vectors i32) (param $count i32) (result i32)
    (local $sum i64) (local $end i32) (local $length i64)
    (if (i32.gt_u (local.get $count) (i32.const 1024)) (then (return (i32.const 28))))
    (if (i32.eqz (call $in_range (local.get $vectors) (i64.extend_i32_u (i32.shl (local.get $count) (i32.const 3)))))
      (then (return (i32.const 21))))
    (local.set $end (i32.add (local.get $vectors) (i32.shl (local.get $count) (i32.const 3))))
    (block $done
      (loop $next
        (br_if $done (i32.eq (local.get $vectors) (local.get $end)))
        (local.set $length (i64.load32_u $program offset=4 align=1 (local.get $vectors)))
        (if (i32.eqz (call $in_range (i32.load $program align=1 (local.get $vectors)) (local.get $length)))
          (then (return (i32.const 21))))
        (local.set $sum (i64.add (local.get $sum) (local.get $length)))
        (local.set $vectors (i32.add (local.get $vectors) (i32.const 8)))
        (br $next)))
    (if (i64.gt_u (local.get $sum) (i64.const 0x7fffffff)) (then (return (i32.const 28))))
    (call $set_moved (i32.wrap_i64 (local.get $sum)))
    (i32.const 0))

  ;; Appends bytes of the program to stream 1 or 2. The range is checked. Returns 1 if the output limit cut it off.
  (func $append (param $stream i32) (param $pointer i32) (param $length i32) (result i32)
    (local $header i32) (local $room i64) (local $cut i32) (local $part i32)
    (local.set $header (i32.add (i32.const 0x20) (i32.shl (local.get $stream) (i32.const 4))))
    (local.set $room
      (i64.sub (i64.load $own offset=0x90 (i32.const 0)) (i64.load $own offset=0x88 (i32.const 0))))
    (if (i64.gt_u (i64.extend_i32_u (local.get $length)) (local.get $room))
      (then
        (local.set $cut (i32.const 1))
        (local.set $length (i32.wrap_i64 (local.get $room)))))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $length)))
        (local.set $part
          (i32.sub (i32.load $own offset=4 (local.get $header)) (i32.load $own offset=8 (local.get $header))))
        (if (i32.eqz (local.get $part))
          (then
            ;; A buffer without capacity can never take a byte.
            (if (i32.eqz (i32.load $own offset=4 (local.get $header))) (then (return (i32.const 1))))
            (call $host_drain (local.get $stream))
            (i32.store $own offset=8 (local.get $header) (i32.const 0))
            (br $next)))
        (if (i32.gt_u (local.get $part) (local.get $length)) (then (local.set $part (local.get $length))))
        (memory.copy $own $program
          (i32.add (i32.load $own (local.get $header)) (i32.load $own offset=8 (local.get $header)))
          (local.get $pointer)
          (local.get $part))
        (i32.store $own offset=8 (local.get $header)
          (i32.add (i32.load $own offset=8 (local.get $header)) (local.get $part)))
        (i64.store $own offset=0x88 (i32.const 0)
          (i64.add (i64.load $own offset=0x88 (i32.const 0)) (i64.extend_i32_u (local.get $part))))
        (local.set $pointer (i32.add (local.get $pointer) (local.get $part)))
        (local.set $length (i32.sub (local.get $length) (local.get $part)))
        (br $next)))
    (local.get $cut))

  ;; Copies a list of strings to `text` and their addresses to `pointers`. Returns the error.
  (func $copy_strings (param $header i32) (param $pointers i32) (param $text i32) (result i32)
    (local $count i32) (local $bytes i32) (local $from i32) (local $end i32)
    (local.set $count (i32.load $own offset=4 (local.get $header)))
    (local.set $bytes (i32.load $own offset=8 (local.get $header)))
    (if (i32.eqz
          (i32.and
            (call $in_range (local.get $pointers) (i64.shl (i64.extend_i32_u (local.get $count)) (i64.const 2)))
            (call $in_range (local.get $text) (i64.extend_i32_u (local.get $bytes)))))
      (then (return (i32.const 21))))
    (local.set $from (i32.load $own (local.get $header)))
    (local.set $end (i32.add (local.get $from) (local.get $bytes)))
    (block $done
      (loop $next
        (br_if $done (i32.eq (local.get $from) (local.get $end)))
        ;; The start of a string.
        (i32.store $program align=1 (local.get $pointers) (local.get $text))
        (local.set $pointers (i32.add (local.get $pointers) (i32.const 4)))
        (loop $byte
          (i32.store8 $program (local.get $text) (i32.load8_u $own (local.get $from)))
          (local.set $text (i32.add (local.get $text) (i32.const 1)))
          (local.set $from (i32.add (local.get $from) (i32.const 1)))
          ;; A string ends with a zero byte.
          (br_if $byte (i32.load8_u $own (i32.sub (local.get $from) (i32.const 1)))))
        (br $next)))
    (call $set_moved (local.get $bytes))
    (i32.const 0))

  ;; Stores the number of strings and their bytes. Returns the error.
  (func $string_sizes (param $header i32) (param $count i32) (param $bytes i32) (result i32)
    (if (i32.eqz
          (i32.and (call $in_range (local.get $count) (i64.const 4)) (call $in_range (local.get $bytes) (i64.const 4))))
      (then (return (i32.const 21))))
    (i32.store $program align=1 (local.get $count) (i32.load $own offset=4 (local.get $header)))
    (i32.store $program align=1 (local.get $bytes) (i32.load $own offset=8 (local.get $header)))
    (i32.const 0))

  ;; -- arguments and environment ---------------------------------------------------------------------------------

  (func (export "args_get") (param $pointers i32) (param $text i32) (result i32)
    (call $finish (i32.const 0)
      (call $copy_strings (i32.const 0x08) (local.get $pointers) (local.get $text))
      (local.get $pointers) (local.get $text)))

  (func (export "args_sizes_get") (param $count i32) (param $bytes i32) (result i32)
    (call $finish (i32.const 1)
      (call $string_sizes (i32.const 0x08) (local.get $count) (local.get $bytes))
      (local.get $count) (local.get $bytes)))

  (func (export "environ_get") (param $pointers i32) (param $text i32) (result i32)
    (call $finish (i32.const 2)
      (call $copy_strings (i32.const 0x14) (local.get $pointers) (local.get $text))
      (local.get $pointers) (local.get $text)))

  (func (export "environ_sizes_get") (param $count i32) (param $bytes i32) (result i32)
    (call $finish (i32.const 3)
      (call $string_sizes (i32.const 0x14) (local.get $count) (local.get $bytes))
      (local.get $count) (local.get $bytes)))

  ;; -- clocks: all four are the virtual clock --------------------------------------------------------------------

  (func $clock_res (param $clock i32) (param $result i32) (result i32)
    (local $step i64)
    (if (i32.gt_u (local.get $clock) (i32.const 3)) (then (return (i32.const 28))))
    (if (i32.eqz (call $in_range (local.get $result) (i64.const 8))) (then (return (i32.const 21))))
    (local.set $step (i64.load $own offset=0x68 (i32.const 0)))
    (if (i64.eqz (local.get $step)) (then (local.set $step (i64.const 1))))
    (i64.store $program align=1 (local.get $result) (local.get $step))
    (i32.const 0))

  (func (export "clock_res_get") (param $clock i32) (param $result i32) (result i32)
    (call $finish (i32.const 4)
      (call $clock_res (local.get $clock) (local.get $result))
      (local.get $clock) (local.get $result)))

  (func $clock_time (param $clock i32) (param $result i32) (result i32)
    (if (i32.gt_u (local.get $clock) (i32.const 3)) (then (return (i32.const 28))))
    (if (i32.eqz (call $in_range (local.get $result) (i64.const 8))) (then (return (i32.const 21))))
    (i64.store $program align=1 (local.get $result) (i64.load $own offset=0x60 (i32.const 0)))
    (i32.const 0))

  (func (export "clock_time_get") (param $clock i32) (param $precision i64) (param $result i32) (result i32)
    (call $finish (i32.const 5)
      (call $clock_time (local.get $clock) (local.get $result))
      (local.get $clock) (i32.wrap_i64 (local.get $precision))))

  ;; -- descriptors 0, 1 and 2 ------------------------------------------------------------------------------------

  (func $close (param $descriptor i32) (result i32)
    (if (i32.eqz (call $is_open (local.get $descriptor))) (then (return (i32.const 8))))
    (i32.store $own offset=0x98 (i32.const 0)
      (i32.or (i32.load $own offset=0x98 (i32.const 0)) (i32.shl (i32.const 1) (local.get $descriptor))))
    (i32.const 0))

  (func (export "fd_close") (param $descriptor i32) (result i32)
    (call $finish (i32.const 8) (call $close (local.get $descriptor)) (local.get $descriptor) (i32.const 0)))

  (func $fdstat (param $descriptor i32) (param $result i32) (result i32)
    (if (i32.eqz (call $is_open (local.get $descriptor))) (then (return (i32.const 8))))
    (if (i32.eqz (call $in_range (local.get $result) (i64.const 24))) (then (return (i32.const 21))))
    ;; The type of the file stays 0, unknown: a terminal would make C flush each line.
    (memory.fill $program (local.get $result) (i32.const 0) (i32.const 24))
    (i32.store8 $program offset=2 (local.get $result) (i32.load8_u $own offset=0x9c (local.get $descriptor)))
    ;; Rights: read (bit 1) or write (bit 6), set flags (bit 3), poll (bit 27).
    (i64.store $program offset=8 align=1 (local.get $result)
      (select (i64.const 0x8000048) (i64.const 0x800000a) (local.get $descriptor)))
    (i32.const 0))

  (func (export "fd_fdstat_get") (param $descriptor i32) (param $result i32) (result i32)
    (call $finish (i32.const 10)
      (call $fdstat (local.get $descriptor) (local.get $result))
      (local.get $descriptor) (local.get $result)))

  (func $set_flags (param $descriptor i32) (param $flags i32) (result i32)
    (if (i32.eqz (call $is_open (local.get $descriptor))) (then (return (i32.const 8))))
    (if (i32.gt_u (local.get $flags) (i32.const 31)) (then (return (i32.const 28))))
    (i32.store8 $own offset=0x9c (local.get $descriptor) (local.get $flags))
    (i32.const 0))

  (func (export "fd_fdstat_set_flags") (param $descriptor i32) (param $flags i32) (result i32)
    (call $finish (i32.const 11)
      (call $set_flags (local.get $descriptor) (local.get $flags))
      (local.get $descriptor) (local.get $flags)))

  (func $filestat (param $descriptor i32) (param $result i32) (result i32)
    (if (i32.eqz (call $is_open (local.get $descriptor))) (then (return (i32.const 8))))
    (if (i32.eqz (call $in_range (local.get $result) (i64.const 64))) (then (return (i32.const 21))))
    (memory.fill $program (local.get $result) (i32.const 0) (i32.const 64))
    (i64.store $program offset=8 align=1 (local.get $result) (i64.extend_i32_u (local.get $descriptor)))
    (i64.store $program offset=24 align=1 (local.get $result) (i64.const 1))
    (if (i32.eqz (local.get $descriptor))
      (then
        (i64.store $program offset=32 align=1 (local.get $result) (i64.load32_u $own offset=0x24 (i32.const 0)))))
    (i32.const 0))

  (func (export "fd_filestat_get") (param $descriptor i32) (param $result i32) (result i32)
    (call $finish (i32.const 13)
      (call $filestat (local.get $descriptor) (local.get $result))
      (local.get $descriptor) (local.get $result)))

  ;; No folder is open: the first answer ends the program's search.
  (func (export "fd_prestat_get") (param $descriptor i32) (param $result i32) (result i32)
    (call $finish (i32.const 17) (i32.const 8) (local.get $descriptor) (local.get $result)))

  (func (export "fd_prestat_dir_name") (param $descriptor i32) (param $path i32) (param i32) (result i32)
    (call $finish (i32.const 18) (i32.const 8) (local.get $descriptor) (local.get $path)))

  (func $read (param $descriptor i32) (param $vectors i32) (param $count i32) (param $result i32) (result i32)
    (local $error i32) (local $end i32) (local $length i32) (local $rest i32) (local $moved i32)
    (if (local.get $descriptor) (then (return (i32.const 8))))
    (if (i32.eqz (call $is_open (i32.const 0))) (then (return (i32.const 8))))
    (local.set $error (call $check_vectors (local.get $vectors) (local.get $count)))
    (call $set_moved (i32.const 0))
    (if (local.get $error) (then (return (local.get $error))))
    (if (i32.eqz (call $in_range (local.get $result) (i64.const 4))) (then (return (i32.const 21))))
    (local.set $end (i32.add (local.get $vectors) (i32.shl (local.get $count) (i32.const 3))))
    (block $done
      (loop $next
        (br_if $done (i32.eq (local.get $vectors) (local.get $end)))
        (local.set $length (i32.load $program offset=4 align=1 (local.get $vectors)))
        ;; The bytes read until now may have replaced this vector.
        (br_if $done
          (i32.eqz
            (call $in_range
              (i32.load $program align=1 (local.get $vectors))
              (i64.extend_i32_u (local.get $length)))))
        (local.set $rest
          (i32.sub (i32.load $own offset=0x24 (i32.const 0)) (i32.load $own offset=0x2c (i32.const 0))))
        (br_if $done (i32.eqz (local.get $rest)))
        (if (i32.gt_u (local.get $length) (local.get $rest)) (then (local.set $length (local.get $rest))))
        (memory.copy $program $own
          (i32.load $program align=1 (local.get $vectors))
          (i32.add (i32.load $own offset=0x20 (i32.const 0)) (i32.load $own offset=0x2c (i32.const 0)))
          (local.get $length))
        (i32.store $own offset=0x2c (i32.const 0)
          (i32.add (i32.load $own offset=0x2c (i32.const 0)) (local.get $length)))
        (local.set $moved (i32.add (local.get $moved) (local.get $length)))
        (local.set $vectors (i32.add (local.get $vectors) (i32.const 8)))
        (br $next)))
    (i32.store $program align=1 (local.get $result) (local.get $moved))
    (call $set_moved (local.get $moved))
    (i32.const 0))

  (func (export "fd_read") (param $descriptor i32) (param $vectors i32) (param $count i32) (param $result i32)
    (result i32)
    (call $finish (i32.const 20)
      (call $read (local.get $descriptor) (local.get $vectors) (local.get $count) (local.get $result))
      (local.get $descriptor) (local.get $vectors)))

  (func (export "fd_seek") (param $descriptor i32) (param $offset i64) (param $whence i32) (param $result i32)
    (result i32)
    (call $finish (i32.const 23)
      (select (i32.const 70) (i32.const 8) (call $is_open (local.get $descriptor)))
      (local.get $descriptor) (i32.wrap_i64 (local.get $offset))))

  ;; Returns the error, or -1 if the output limit cut the bytes off.
  (func $write (param $descriptor i32) (param $vectors i32) (param $count i32) (param $result i32) (result i32)
    (local $error i32) (local $end i32)
    (if (i32.eqz (local.get $descriptor)) (then (return (i32.const 8))))
    (if (i32.eqz (call $is_open (local.get $descriptor))) (then (return (i32.const 8))))
    (if (i32.eqz (call $in_range (local.get $result) (i64.const 4))) (then (return (i32.const 21))))
    (local.set $error (call $check_vectors (local.get $vectors) (local.get $count)))
    (if (local.get $error) (then (return (local.get $error))))
    (local.set $end (i32.add (local.get $vectors) (i32.shl (local.get $count) (i32.const 3))))
    (block $done
      (loop $next
        (br_if $done (i32.eq (local.get $vectors) (local.get $end)))
        (if (call $append (local.get $descriptor)
              (i32.load $program align=1 (local.get $vectors))
              (i32.load $program offset=4 align=1 (local.get $vectors)))
          (then (return (i32.const -1))))
        (local.set $vectors (i32.add (local.get $vectors) (i32.const 8)))
        (br $next)))
    (i32.store $program align=1 (local.get $result) (i32.load $own offset=0xa4 (i32.const 0)))
    (i32.const 0))

  ;; Logs a call that the output limit cut off, and ends the copy with trap 12.
  (func $stop_at_limit (param $function i32) (param $first i32) (param $second i32)
    (drop (call $finish (local.get $function) (i32.const 51) (local.get $first) (local.get $second)))
    (call $host_exit (i32.const 12) (i32.const 0))
    (unreachable))

  (func (export "fd_write") (param $descriptor i32) (param $vectors i32) (param $count i32) (param $result i32)
    (result i32)
    (local $error i32)
    (local.set $error
      (call $write (local.get $descriptor) (local.get $vectors) (local.get $count) (local.get $result)))
    (if (i32.eq (local.get $error) (i32.const -1))
      (then (call $stop_at_limit (i32.const 26) (local.get $descriptor) (local.get $vectors))))
    (call $finish (i32.const 26) (local.get $error) (local.get $descriptor) (local.get $vectors)))

  ;; -- waiting: the clock moves to the first deadline ------------------------------------------------------------

  ;; Returns the deadline of the clock subscription at `subscription`, for a call that began at `now`.
  (func $deadline (param $subscription i32) (param $now i64) (result i64)
    (local $timeout i64) (local $sum i64)
    (local.set $timeout (i64.load $program offset=24 align=1 (local.get $subscription)))
    ;; Bit 0: the timeout is a time.
    (if (i32.and (i32.const 1) (i32.load16_u $program offset=40 align=1 (local.get $subscription)))
      (then (return (local.get $timeout))))
    (local.set $sum (i64.add (local.get $now) (local.get $timeout)))
    (if (i64.lt_u (local.get $sum) (local.get $now)) (then (return (i64.const -1))))
    (local.get $sum))

  (func $poll (param $subscriptions i32) (param $events i32) (param $count i32) (param $result i32) (result i32)
    (local $at i32) (local $end i32) (local $now i64) (local $first i64) (local $ready i32) (local $kind i32)
    (local $number i32) (local $error i32) (local $deadline i64) (local $user i64)
    (if (i32.eqz (local.get $count)) (then (return (i32.const 28))))
    (if (i32.gt_u (local.get $count) (i32.const 1024)) (then (return (i32.const 28))))
    (if (i32.eqz
          (i32.and
            (i32.and
              (call $in_range (local.get $subscriptions)
                (i64.mul (i64.extend_i32_u (local.get $count)) (i64.const 48)))
              (call $in_range (local.get $events) (i64.mul (i64.extend_i32_u (local.get $count)) (i64.const 32))))
            (call $in_range (local.get $result) (i64.const 4))))
      (then (return (i32.const 21))))
    (local.set $now (i64.load $own offset=0x60 (i32.const 0)))
    (local.set $first (i64.const -1))
    (local.set $end (i32.add (local.get $subscriptions) (i32.mul (local.get $count) (i32.const 48))))
    ;; Pass 1: the first deadline, and whether something is ready at once.
    (local.set $at (local.get $subscriptions))
    (loop $next
      (local.set $kind (i32.load8_u $program offset=8 (local.get $at)))
      (if (i32.gt_u (local.get $kind) (i32.const 2)) (then (return (i32.const 28))))
      (if (i32.or
            (local.get $kind)
            (i32.gt_u (i32.load $program offset=16 align=1 (local.get $at)) (i32.const 3)))
        (then (local.set $ready (i32.const 1)))
        (else
          (local.set $deadline (call $deadline (local.get $at) (local.get $now)))
          (if (i64.lt_u (local.get $deadline) (local.get $first))
            (then (local.set $first (local.get $deadline))))))
      (local.set $at (i32.add (local.get $at) (i32.const 48)))
      (br_if $next (i32.ne (local.get $at) (local.get $end))))
    (if (i32.eqz (local.get $ready))
      (then
        (if (i64.gt_u (local.get $first) (local.get $now))
          (then (i64.store $own offset=0x60 (i32.const 0) (local.get $first))))))
    ;; Pass 2: the events.
    (local.set $at (local.get $subscriptions))
    (loop $next
      (block $skip
        (local.set $user (i64.load $program align=1 (local.get $at)))
        (local.set $kind (i32.load8_u $program offset=8 (local.get $at)))
        (local.set $number (i32.load $program offset=16 align=1 (local.get $at)))
        (local.set $error (i32.const 0))
        (if (local.get $kind)
          (then
            ;; Only descriptor 0 can be read, and only 1 and 2 can be written.
            (if (i32.eqz
                  (i32.and
                    (call $is_open (local.get $number))
                    (i32.eq (i32.ne (local.get $number) (i32.const 0)) (i32.eq (local.get $kind) (i32.const 2)))))
              (then (local.set $error (i32.const 8)))))
          (else
            (if (i32.gt_u (local.get $number) (i32.const 3))
              (then (local.set $error (i32.const 28)))
              (else
                (br_if $skip
                  (i64.gt_u
                    (call $deadline (local.get $at) (local.get $now))
                    (i64.load $own offset=0x60 (i32.const 0))))))))
        (memory.fill $program (local.get $events) (i32.const 0) (i32.const 32))
        (i64.store $program align=1 (local.get $events) (local.get $user))
        (i32.store16 $program offset=8 align=1 (local.get $events) (local.get $error))
        (i32.store8 $program offset=10 (local.get $events) (local.get $kind))
        (if (i32.and (i32.eq (local.get $kind) (i32.const 1)) (i32.eqz (local.get $error)))
          (then
            (i64.store $program offset=16 align=1 (local.get $events)
              (i64.extend_i32_u
                (i32.sub (i32.load $own offset=0x24 (i32.const 0)) (i32.load $own offset=0x2c (i32.const 0)))))))
        (local.set $events (i32.add (local.get $events) (i32.const 32)))
        (call $set_moved (i32.add (i32.load $own offset=0xa4 (i32.const 0)) (i32.const 1))))
      (local.set $at (i32.add (local.get $at) (i32.const 48)))
      (br_if $next (i32.ne (local.get $at) (local.get $end))))
    (i32.store $program align=1 (local.get $result) (i32.load $own offset=0xa4 (i32.const 0)))
    (call $set_moved (i32.shl (i32.load $own offset=0xa4 (i32.const 0)) (i32.const 5)))
    (i32.const 0))

  (func (export "poll_oneoff") (param $subscriptions i32) (param $events i32) (param $count i32) (param $result i32)
    (result i32)
    (call $finish (i32.const 37)
      (call $poll (local.get $subscriptions) (local.get $events) (local.get $count) (local.get $result))
      (local.get $subscriptions) (local.get $count)))

  (func (export "sched_yield") (result i32)
    (call $finish (i32.const 41) (i32.const 0) (i32.const 0) (i32.const 0)))

  ;; -- exit ------------------------------------------------------------------------------------------------------

  (func (export "proc_exit") (param $code i32)
    (drop (call $finish (i32.const 38) (i32.const 0) (local.get $code) (i32.const 0)))
    (call $host_exit (i32.const 0) (local.get $code))
    (unreachable))

  ;; -- random numbers: Philox4x32-10, the counter is (block, input number), the key is the seed ---------------------

  ;; Writes the random block with the number at 0x80 to 0xb0, and advances the number.
  (func $random_block
    (local $c0 i32) (local $c1 i32) (local $c2 i32) (local $c3 i32) (local $k0 i32) (local $k1 i32) (local $round i32)
    (local $p0 i64) (local $p1 i64)
    (local.set $c0 (i32.load $own offset=0x80 (i32.const 0)))
    (local.set $c1 (i32.load $own offset=0x84 (i32.const 0)))
    (local.set $c2 (i32.load $own offset=0x78 (i32.const 0)))
    (local.set $c3 (i32.load $own offset=0x7c (i32.const 0)))
    (local.set $k0 (i32.load $own offset=0x70 (i32.const 0)))
    (local.set $k1 (i32.load $own offset=0x74 (i32.const 0)))
    (local.set $round (i32.const 10))
    (loop $next
      (local.set $p0 (i64.mul (i64.const 0xd2511f53) (i64.extend_i32_u (local.get $c0))))
      (local.set $p1 (i64.mul (i64.const 0xcd9e8d57) (i64.extend_i32_u (local.get $c2))))
      (local.set $c0
        (i32.xor
          (i32.xor (i32.wrap_i64 (i64.shr_u (local.get $p1) (i64.const 32))) (local.get $c1))
          (local.get $k0)))
      (local.set $c1 (i32.wrap_i64 (local.get $p1)))
      (local.set $c2
        (i32.xor
          (i32.xor (i32.wrap_i64 (i64.shr_u (local.get $p0) (i64.const 32))) (local.get $c3))
          (local.get $k1)))
      (local.set $c3 (i32.wrap_i64 (local.get $p0)))
      (local.set $k0 (i32.add (local.get $k0) (i32.const 0x9e3779b9)))
      (local.set $k1 (i32.add (local.get $k1) (i32.const 0xbb67ae85)))
      (local.set $round (i32.sub (local.get $round) (i32.const 1)))
      (br_if $next (local.get $round)))
    (i32.store $own offset=0xb0 (i32.const 0) (local.get $c0))
    (i32.store $own offset=0xb4 (i32.const 0) (local.get $c1))
    (i32.store $own offset=0xb8 (i32.const 0) (local.get $c2))
    (i32.store $own offset=0xbc (i32.const 0) (local.get $c3))
    (i64.store $own offset=0x80 (i32.const 0) (i64.add (i64.load $own offset=0x80 (i32.const 0)) (i64.const 1))))

  (func $random (param $pointer i32) (param $length i32) (result i32)
    (local $part i32)
    (if (i32.eqz (call $in_range (local.get $pointer) (i64.extend_i32_u (local.get $length))))
      (then (return (i32.const 21))))
    (call $set_moved (local.get $length))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $length)))
        (call $random_block)
        (local.set $part (select (local.get $length) (i32.const 16) (i32.lt_u (local.get $length) (i32.const 16))))
        (memory.copy $program $own (local.get $pointer) (i32.const 0xb0) (local.get $part))
        (local.set $pointer (i32.add (local.get $pointer) (local.get $part)))
        (local.set $length (i32.sub (local.get $length) (local.get $part)))
        (br $next)))
    (i32.const 0))

  (func (export "random_get") (param $pointer i32) (param $length i32) (result i32)
    (call $finish (i32.const 40)
      (call $random (local.get $pointer) (local.get $length))
      (local.get $pointer) (local.get $length)))

  ;; -- requests --------------------------------------------------------------------------------------------------

  ;; Copies the next request to the program and returns its length. A request longer than `capacity` stays: only its
  ;; length is returned. Ends the copy with exit code 0 after the last request.
  (func $invoke (param $pointer i32) (param $capacity i32) (result i32)
    (local $length i32)
    (if (i32.eqz (call $in_range (local.get $pointer) (i64.extend_i32_u (local.get $capacity))))
      (then (return (i32.const -21))))
    (if (i32.load $own offset=0xa0 (i32.const 0))
      (then
        (if (i32.eqz (call $host_next))
          (then
            (drop (call $finish (i32.const 46) (i32.const -1) (local.get $pointer) (local.get $capacity)))
            (call $host_exit (i32.const 0) (i32.const 0))
            (unreachable)))
        (i32.store $own offset=0x2c (i32.const 0) (i32.const 0))
        (i32.store $own offset=0xa0 (i32.const 0) (i32.const 0))))
    (local.set $length (i32.load $own offset=0x24 (i32.const 0)))
    (if (i32.gt_u (local.get $length) (local.get $capacity)) (then (return (local.get $length))))
    (memory.copy $program $own
      (local.get $pointer)
      (i32.load $own offset=0x20 (i32.const 0))
      (local.get $length))
    (i32.store $own offset=0xa0 (i32.const 0) (i32.const 1))
    (call $set_moved (local.get $length))
    (local.get $length))

  (func (export "invoke") (export "serverless_invoke") (param $pointer i32) (param $capacity i32) (result i32)
    (call $finish (i32.const 46)
      (call $invoke (local.get $pointer) (local.get $capacity))
      (local.get $pointer) (local.get $capacity)))

  ;; Appends the answer to standard output. A range outside the memory is trap 4: there is no result to return.
  (func (export "respond") (export "serverless_response") (param $pointer i32) (param $length i32)
    (if (i32.eqz (call $in_range (local.get $pointer) (i64.extend_i32_u (local.get $length))))
      (then
        (drop (call $finish (i32.const 47) (i32.const 21) (local.get $pointer) (local.get $length)))
        (call $host_exit (i32.const 4) (i32.const 0))
        (unreachable)))
    (call $set_moved (local.get $length))
    (if (call $append (i32.const 1) (local.get $pointer) (local.get $length))
      (then (call $stop_at_limit (i32.const 47) (local.get $pointer) (local.get $length))))
    (drop (call $finish (i32.const 47) (i32.const 0) (local.get $pointer) (local.get $length))))

  ;; -- functions that no copy has: ENOSYS (52), and ENOTCAPABLE (76) for paths -------------------------------------

  (func (export "fd_advise") (param i32 i64 i64 i32) (result i32)
    (call $finish (i32.const 6) (i32.const 52) (local.get 0) (i32.wrap_i64 (local.get 1))))
  (func (export "fd_allocate") (param i32 i64 i64) (result i32)
    (call $finish (i32.const 7) (i32.const 52) (local.get 0) (i32.wrap_i64 (local.get 1))))
  (func (export "fd_datasync") (param i32) (result i32)
    (call $finish (i32.const 9) (i32.const 52) (local.get 0) (i32.const 0)))
  (func (export "fd_fdstat_set_rights") (param i32 i64 i64) (result i32)
    (call $finish (i32.const 12) (i32.const 52) (local.get 0) (i32.wrap_i64 (local.get 1))))
  (func (export "fd_filestat_set_size") (param i32 i64) (result i32)
    (call $finish (i32.const 14) (i32.const 52) (local.get 0) (i32.wrap_i64 (local.get 1))))
  (func (export "fd_filestat_set_times") (param i32 i64 i64 i32) (result i32)
    (call $finish (i32.const 15) (i32.const 52) (local.get 0) (i32.wrap_i64 (local.get 1))))
  (func (export "fd_pread") (param i32 i32 i32 i64 i32) (result i32)
    (call $finish (i32.const 16) (i32.const 52) (local.get 0) (local.get 1)))
  (func (export "fd_pwrite") (param i32 i32 i32 i64 i32) (result i32)
    (call $finish (i32.const 19) (i32.const 52) (local.get 0) (local.get 1)))
  (func (export "fd_readdir") (param i32 i32 i32 i64 i32) (result i32)
    (call $finish (i32.const 21) (i32.const 52) (local.get 0) (local.get 1)))
  (func (export "fd_renumber") (param i32 i32) (result i32)
    (call $finish (i32.const 22) (i32.const 52) (local.get 0) (local.get 1)))
  (func (export "fd_sync") (param i32) (result i32)
    (call $finish (i32.const 24) (i32.const 52) (local.get 0) (i32.const 0)))
  (func (export "fd_tell") (param i32 i32) (result i32)
    (call $finish (i32.const 25) (i32.const 52) (local.get 0) (local.get 1)))
  (func (export "path_create_directory") (param i32 i32 i32) (result i32)
    (call $finish (i32.const 27) (i32.const 76) (local.get 0) (local.get 1)))
  (func (export "path_filestat_get") (param i32 i32 i32 i32 i32) (result i32)
    (call $finish (i32.const 28) (i32.const 76) (local.get 0) (local.get 1)))
  (func (export "path_filestat_set_times") (param i32 i32 i32 i32 i64 i64 i32) (result i32)
    (call $finish (i32.const 29) (i32.const 76) (local.get 0) (local.get 1)))
  (func (export "path_link") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $finish (i32.const 30) (i32.const 76) (local.get 0) (local.get 1)))
  (func (export "path_open") (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)
    (call $finish (i32.const 31) (i32.const 76) (local.get 0) (local.get 1)))
  (func (export "path_readlink") (param i32 i32 i32 i32 i32 i32) (result i32)
    (call $finish (i32.const 32) (i32.const 76) (local.get 0) (local.get 1)))
  (func (export "path_remove_directory") (param i32 i32 i32) (result i32)
    (call $finish (i32.const 33) (i32.const 76) (local.get 0) (local.get 1)))
  (func (export "path_rename") (param i32 i32 i32 i32 i32 i32) (result i32)
    (call $finish (i32.const 34) (i32.const 76) (local.get 0) (local.get 1)))
  (func (export "path_symlink") (param i32 i32 i32 i32 i32) (result i32)
    (call $finish (i32.const 35) (i32.const 76) (local.get 0) (local.get 1)))
  (func (export "path_unlink_file") (param i32 i32 i32) (result i32)
    (call $finish (i32.const 36) (i32.const 76) (local.get 0) (local.get 1)))
  (func (export "proc_raise") (param i32) (result i32)
    (call $finish (i32.const 39) (i32.const 52) (local.get 0) (i32.const 0)))
  (func (export "sock_accept") (param i32 i32 i32) (result i32)
    (call $finish (i32.const 42) (i32.const 52) (local.get 0) (local.get 1)))
  (func (export "sock_recv") (param i32 i32 i32 i32 i32 i32) (result i32)
    (call $finish (i32.const 43) (i32.const 52) (local.get 0) (local.get 1)))
  (func (export "sock_send") (param i32 i32 i32 i32 i32) (result i32)
    (call $finish (i32.const 44) (i32.const 52) (local.get 0) (local.get 1)))
  (func (export "sock_shutdown") (param i32 i32) (result i32)
    (call $finish (i32.const 45) (i32.const 52) (local.get 0) (local.get 1))))
