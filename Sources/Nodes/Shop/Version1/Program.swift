import PipeRuntime
import Shop

/// The program of the shop.
@main package struct ShopProgram: NodeProgram {
  package static let machines: [any Machine.Type] = [
    Order.self, Payment.self, Stock.self, Shipping.self,
  ]
  package static let monitors: [any Monitor.Type] = [StateCounts.self]
}
