;; A loop with its fuel, a switch, values through labels.
(module
  (func (export "sum") (param i32) (result i32) (local i32)
    (loop
      (local.set 1 (i32.add (local.get 1) (local.get 0)))
      (br_if 0 (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
    (local.get 1))
  (func (export "switch") (param i32) (result i32)
    (block $a (result i32)
      (block (block (block (block (block (br_table 0 1 2 3 4 0 (local.get 0)))
        (br $a (i32.const 10))) (br $a (i32.const 20))) (br $a (i32.const 30))) (br $a (i32.const 40)))
      (i32.const 50)))
  (func (export "limit") (param i32) (result i32)
    (if (result i32) (i32.gt_s (local.get 0) (i32.const 100)) (then (i32.const 100)) (else (local.get 0)))))
