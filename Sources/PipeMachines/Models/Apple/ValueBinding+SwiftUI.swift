// For Apple platforms. This file is compiled against stubs of SwiftUI (tools/check-portable), and
// has not been run.
#if canImport(SwiftUI)
  import SwiftUI

  extension SwiftUI.Binding {
    /// Makes a SwiftUI binding that reads and sets the value of the given binding.
    @MainActor
    public init(_ binding: ValueBinding<Value>) {
      self.init(get: binding.get, set: binding.set)
    }
  }
#endif
