// For Apple's systems. It is compiled against stand-ins of SwiftUI (tools/check-portable), and has not been
// run.
#if canImport(SwiftUI)
  import SwiftUI

  extension SwiftUI.Binding {
    /// A binding of SwiftUI that reads and sets as the given one does.
    @MainActor
    public init(_ binding: ValueBinding<Value>) {
      self.init(get: binding.get, set: binding.set)
    }
  }
#endif
