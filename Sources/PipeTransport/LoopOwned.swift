/// A value that one loop's thread uses and others only pass on.
// The owner upholds it: `value` is read in closures posted to that loop, and nowhere else.
package struct LoopOwned<Value>: @unchecked Sendable {
  package let value: Value
  package init(_ value: Value) { self.value = value }
}
