(module
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 64))
  (func (export "allocate") (param i32) (result i32)
    (global.get $next)
    (global.set $next (i32.add (global.get $next) (local.get 0))))
  (func (export "run") (param i32 i32 i32 i32) (result i32)
    (i64.store (local.get 2) (i64.load (local.get 0)))
    (i32.const 0)))
