// What a small layer of a network does: a product of matrices, and a curve over it.
func.func @layer(%input: tensor<4x8xf32>, %weights: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x4xf32>
  %begin = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x4xf32>) -> tensor<4x4xf32>
  %product = linalg.matmul ins(%input, %weights : tensor<4x8xf32>, tensor<8x4xf32>)
      outs(%begin : tensor<4x4xf32>) -> tensor<4x4xf32>
  %curve = math.tanh %product : tensor<4x4xf32>
  return %curve : tensor<4x4xf32>
}
