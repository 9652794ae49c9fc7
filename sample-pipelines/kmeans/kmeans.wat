;; The parts of k-means that are no matrix product. Matrices have 32 rows of 32 f32.
(module
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 1024))
  ;; Number of clusters.
  (global $clusters i32 (i32.const 4))

  ;; Reserves memory at a multiple of 16. A run has a memory of its own, so that nothing is freed.
  (func (export "allocate") (param $bytes i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $next))
    (global.set $next
      (i32.add (local.get $at) (i32.and (i32.add (local.get $bytes) (i32.const 15)) (i32.const -16))))
    (local.get $at))

  ;; The address of the element in a row and a column of a matrix.
  (func $element (param $matrix i32) (param $row i32) (param $column i32) (result i32)
    (i32.add
      (local.get $matrix)
      (i32.shl (i32.add (i32.shl (local.get $row) (i32.const 5)) (local.get $column)) (i32.const 2))))

  ;; The address of a word of a list.
  (func $word (param $list i32) (param $at i32) (result i32)
    (i32.add (local.get $list) (i32.shl (local.get $at) (i32.const 2))))

  ;; Lays 32 points of 2 coordinates out as the rows of a matrix, and 4 centres as the columns of another one.
  (func (export "place")
    (param $points i32) (param i32) (param $centres i32) (param i32)
    (param $rows i32) (param i32) (param $columns i32) (param i32)
    (local $i i32) (local $axis i32)
    (loop $points_loop
      (local.set $axis (i32.const 0))
      (loop $axes
        (f32.store
          (call $element (local.get $rows) (local.get $i) (local.get $axis))
          (f32.load
            (call $word (local.get $points) (i32.add (i32.shl (local.get $i) (i32.const 1)) (local.get $axis)))))
        (if (i32.lt_u (local.get $i) (global.get $clusters))
          (then
            (f32.store
              (call $element (local.get $columns) (local.get $axis) (local.get $i))
              (f32.load
                (call $word
                  (local.get $centres)
                  (i32.add (i32.shl (local.get $i) (i32.const 1)) (local.get $axis)))))))
        (local.set $axis (i32.add (local.get $axis) (i32.const 1)))
        (br_if $axes (i32.lt_u (local.get $axis) (i32.const 2))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $points_loop (i32.lt_u (local.get $i) (i32.const 32)))))

  ;; The square of the length of a centre, a column of the matrix.
  (func $square (param $centres i32) (param $cluster i32) (result f32)
    (local $x f32) (local $y f32)
    (local.set $x (f32.load (call $element (local.get $centres) (i32.const 0) (local.get $cluster))))
    (local.set $y (f32.load (call $element (local.get $centres) (i32.const 1) (local.get $cluster))))
    (f32.add
      (f32.mul (local.get $x) (local.get $x))
      (f32.mul (local.get $y) (local.get $y))))

  ;; The cluster with the nearest centre: the greatest x.c - |c|^2 / 2, of the first one if several are.
  (func $nearest (param $products i32) (param $centres i32) (param $point i32) (result i32)
    (local $cluster i32) (local $best i32) (local $score f32) (local $best_score f32)
    (local.set $best_score (f32.const -inf))
    (loop $each
      (local.set $score
        (f32.sub
          (f32.load (call $element (local.get $products) (local.get $point) (local.get $cluster)))
          (f32.mul (f32.const 0.5) (call $square (local.get $centres) (local.get $cluster)))))
      (if (f32.gt (local.get $score) (local.get $best_score))
        (then
          (local.set $best (local.get $cluster))
          (local.set $best_score (local.get $score))))
      (local.set $cluster (i32.add (local.get $cluster) (i32.const 1)))
      (br_if $each (i32.lt_u (local.get $cluster) (global.get $clusters))))
    (local.get $best))

  ;; The mean of a coordinate of the points of a cluster, or what it was if there are none.
  (func $mean (param $points i32) (param $labels i32) (param $cluster i32) (param $axis i32) (param $before f32)
    (result f32)
    (local $point i32) (local $sum f32) (local $count f32)
    (loop $each
      (if (i32.eq (i32.load (call $word (local.get $labels) (local.get $point))) (local.get $cluster))
        (then
          (local.set $count (f32.add (local.get $count) (f32.const 1)))
          (local.set $sum
            (f32.add
              (local.get $sum)
              (f32.load (call $element (local.get $points) (local.get $point) (local.get $axis)))))))
      (local.set $point (i32.add (local.get $point) (i32.const 1)))
      (br_if $each (i32.lt_u (local.get $point) (i32.const 32))))
    (if (result f32) (f32.eq (local.get $count) (f32.const 0))
      (then (local.get $before))
      (else (f32.div (local.get $sum) (local.get $count)))))

  ;; One round: a label for each point from its products with the centres, the new centres, and the number of points
  ;; with another label than before.
  (func (export "update")
    (param $points i32) (param i32) (param $products i32) (param i32)
    (param $centres i32) (param $centres_bytes i32) (param $labels i32) (param i32)
    (param $new_centres i32) (param i32) (param $new_labels i32) (param i32) (param $moved i32) (param i32)
    (local $i i32) (local $axis i32) (local $label i32) (local $count i32)
    (loop $each
      (local.set $label (call $nearest (local.get $products) (local.get $centres) (local.get $i)))
      (i32.store (call $word (local.get $new_labels) (local.get $i)) (local.get $label))
      (local.set $count
        (i32.add
          (local.get $count)
          (i32.ne (local.get $label) (i32.load (call $word (local.get $labels) (local.get $i))))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $each (i32.lt_u (local.get $i) (i32.const 32))))
    (i32.store (local.get $moved) (local.get $count))
    (local.set $i (i32.const 0))
    (loop $clusters_loop
      (local.set $axis (i32.const 0))
      (loop $axes
        (f32.store
          (call $element (local.get $new_centres) (local.get $axis) (local.get $i))
          (call $mean
            (local.get $points)
            (local.get $new_labels)
            (local.get $i)
            (local.get $axis)
            (f32.load (call $element (local.get $centres) (local.get $axis) (local.get $i)))))
        (local.set $axis (i32.add (local.get $axis) (i32.const 1)))
        (br_if $axes (i32.lt_u (local.get $axis) (i32.const 2))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $clusters_loop (i32.lt_u (local.get $i) (global.get $clusters)))))
)
