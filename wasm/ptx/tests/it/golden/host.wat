;; A host function in a loop: what lives across the call is saved and restored.
(module
  (import "host" "next" (func $next (param i32) (result i64)))
  (func (export "collect") (param $n i32) (result i64) (local $sum i64) (local $unused f64)
    (loop $again
      (local.set $sum (i64.add (local.get $sum) (call $next (local.get $n))))
      (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum)))
