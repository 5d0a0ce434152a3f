/// The transitions of one machine that were begun to find out where they lead, and have not returned.
///
/// One whose time is up, or whose event is given up, is cancelled and waited for no longer. Where it takes
/// no notice of that it goes on, with all that it holds: so there may only be a few.
package struct UnreturnedTransitions {
  private var count = 0
  private var hasRefused = false
  private var isTold = false

  /// How many may run at a time. Unit: transitions.
  private static var limit: Int { 4 }

  package init() {}

  /// Whether another one may begin; else its event is refused.
  /// - Parameter tell: Told, once, why events are refused.
  package mutating func mayBegin(tell: (String) -> Void) -> Bool {
    if count < Self.limit { return true }
    hasRefused = true
    if !isTold {
      isTold = true
      tell(
        "\(count) asynchronous transitions of synchronized events run on, though they were cancelled: "
          + "until one returns, such events are refused as overdue. Let what they wait for end when "
          + "their task is cancelled")
    }
    return false
  }

  package mutating func begin() { count += 1 }

  /// One has returned, or has thrown.
  /// - Returns: Whether events were refused that may have their turn now.
  package mutating func returned() -> Bool {
    count -= 1
    defer { hasRefused = false }
    return hasRefused
  }
}
