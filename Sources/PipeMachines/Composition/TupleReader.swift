/// Reads the states of a product one by one, each as its own type.
///
/// Not a local function of those who read: Swift 6.3.1 does not compile a release with a generic
/// function inside one whose parameters are a pack.
final class TupleReader {
  private let state: ProductState
  private var place = -1

  init(_ state: ProductState) { self.state = state }

  func next<Value: MachineState>(_: Value.Type) -> Value {
    place += 1
    guard let value = state.components[place].value as? Value else {
      preconditionFailure("State \(state) is not one of this composite's.")
    }
    return value
  }
}
