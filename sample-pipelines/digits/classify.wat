;; What follows the last layer of a classifier: softmax and arg-max of f32 scores.
(module
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 0))

  ;; Reserves memory at a multiple of 16. A run has a memory of its own, so that nothing is freed.
  (func (export "allocate") (param $bytes i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $next))
    (global.set $next
      (i32.add (local.get $at) (i32.and (i32.add (local.get $bytes) (i32.const 15)) (i32.const -16))))
    (local.get $at))

  ;; The exponential of x for x from -700 to 700: 2^n times the series of e^r, with |r| at most half of ln 2.
  (func $exp (param $x f64) (result f64)
    (local $n f64) (local $r f64) (local $sum f64) (local $i f64)
    (local.set $n (f64.nearest (f64.mul (local.get $x) (f64.const 1.4426950408889634))))
    (local.set $r (f64.sub (local.get $x) (f64.mul (local.get $n) (f64.const 0.6931471805599453))))
    ;; 1 + r/1 (1 + r/2 (1 + r/3 (...)))
    (local.set $sum (f64.const 1))
    (local.set $i (f64.const 14))
    (loop $terms
      (local.set $sum
        (f64.add (f64.const 1) (f64.mul (f64.div (local.get $r) (local.get $i)) (local.get $sum))))
      (local.set $i (f64.sub (local.get $i) (f64.const 1)))
      (br_if $terms (f64.gt (local.get $i) (f64.const 0))))
    (f64.mul
      (local.get $sum)
      (f64.reinterpret_i64
        (i64.shl (i64.add (i64.trunc_sat_f64_s (local.get $n)) (i64.const 1023)) (i64.const 52)))))

  ;; The greatest of the f32 from $at to $end, which are one or more.
  (func $max (param $at i32) (param $end i32) (result f32)
    (local $max f32)
    (local.set $max (f32.load (local.get $at)))
    (loop $each
      (local.set $max (f32.max (local.get $max) (f32.load (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 4)))
      (br_if $each (i32.lt_u (local.get $at) (local.get $end))))
    (local.get $max))

  ;; probability[i] = e^(logits[i] - greatest) / their sum. Differences below -700 count as -700.
  (func (export "softmax") (param $in i32) (param $bytes i32) (param $out i32) (param $out_bytes i32) (result i32)
    (local $max f64) (local $sum f64) (local $i i32) (local $e f64)
    (if (i32.ne (local.get $bytes) (local.get $out_bytes)) (then (return (i32.const 1))))
    (local.set $max
      (f64.promote_f32 (call $max (local.get $in) (i32.add (local.get $in) (local.get $bytes)))))
    (loop $each
      (local.set $e
        (call $exp
          (f64.max
            (f64.const -700)
            (f64.sub (f64.promote_f32 (f32.load (i32.add (local.get $in) (local.get $i)))) (local.get $max)))))
      (local.set $sum (f64.add (local.get $sum) (local.get $e)))
      (f32.store (i32.add (local.get $out) (local.get $i)) (f32.demote_f64 (local.get $e)))
      (local.set $i (i32.add (local.get $i) (i32.const 4)))
      (br_if $each (i32.lt_u (local.get $i) (local.get $bytes))))
    (local.set $i (i32.const 0))
    (loop $each
      (f32.store
        (i32.add (local.get $out) (local.get $i))
        (f32.demote_f64
          (f64.div
            (f64.promote_f32 (f32.load (i32.add (local.get $out) (local.get $i))))
            (local.get $sum))))
      (local.set $i (i32.add (local.get $i) (i32.const 4)))
      (br_if $each (i32.lt_u (local.get $i) (local.get $bytes))))
    (i32.const 0))

  ;; The index of the greatest score, of the first one if several are.
  (func (export "argmax") (param $in i32) (param $bytes i32) (param $out i32) (param $out_bytes i32)
    (local $max f32) (local $i i32)
    (local.set $max (call $max (local.get $in) (i32.add (local.get $in) (local.get $bytes))))
    (block $found
      (loop $each
        (br_if $found
          (f32.eq (f32.load (i32.add (local.get $in) (i32.shl (local.get $i) (i32.const 2)))) (local.get $max)))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $each (i32.lt_u (i32.shl (local.get $i) (i32.const 2)) (local.get $bytes)))))
    (i32.store (local.get $out) (local.get $i)))
)
