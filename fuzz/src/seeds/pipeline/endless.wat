(module
  (memory (export "memory") 1 4)
  (table 2 funcref)
  (func (export "allocate") (param i32) (result i32)
    (i32.shl (memory.grow (i32.const 1)) (i32.const 16)))
  (func $deep (call $deep))
  (func (export "run") (param i32 i32 i32 i32)
    (if (i32.eqz (i32.load (local.get 0))) (then (call $deep)))
    (loop $again (br $again))))
