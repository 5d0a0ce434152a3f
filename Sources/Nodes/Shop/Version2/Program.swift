import PipeRuntime
import Shop

/// The program of the shop with version 2 of the machine `Order`.
@main package struct ShopProgram2: NodeProgram {
  package static let machines: [any Machine.Type] = [
    Order.self, Payment.self, Stock.self, Shipping.self,
  ]
  package static let monitors: [any Monitor.Type] = [StateCounts.self]
}
