;; Constants become operands, comparisons become branches and selections, and only visible NaNs become canonical.
(module
  (func (export "words") (param i32 i32) (result i32)
    (i32.add (i32.shl (local.get 0) (i32.const 35)) (i32.div_s (local.get 1) (i32.const 10))))
  (func (export "choose") (param i32 i64 i64) (result i64)
    (select (local.get 1) (i64.rotl (local.get 2) (i64.const 40)) (i32.lt_u (local.get 0) (i32.const 7))))
  (func (export "hidden") (param f32 f32) (result i32)
    (f32.lt (f32.mul (f32.add (local.get 0) (local.get 1)) (local.get 1)) (f32.const 1.5)))
  (func (export "visible") (param f32 f32) (result f32)
    (f32.add (f32.mul (local.get 0) (local.get 1)) (local.get 1)))
  (func (export "convert") (param f64) (result i32) (i32.trunc_f64_s (local.get 0))))
