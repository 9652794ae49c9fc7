;; One comparison for bounds, one address for an aligned access, constants without either.
(module
  (memory 1 1)
  (func (export "load") (param i32) (result i32) (i32.load offset=8 (local.get 0)))
  (func (export "store") (param i32 i64) (i64.store (local.get 0) (local.get 1)))
  (func (export "byte") (param i32) (result i32) (i32.load8_u (local.get 0)))
  (func (export "fixed") (result i32) (i32.load (i32.const 1024))))
