/// A state as it is shown: with the edits that wait behind an action, which has not seen them.
///
/// Each state that an action leads to is shown with them, too, until the edits themselves are taken.
struct EditedState<State: Sendable>: Sendable {
  typealias Change = @Sendable (inout State) -> Void

  /// What is shown.
  private(set) var value: State
  private var waiting: [(number: Int, change: Change)] = []

  init(_ value: State) { self.value = value }

  /// An edit cannot be taken at once.
  mutating func edit(number: Int, _ change: @escaping Change) {
    waiting.append((number, change))
    change(&value)
  }

  /// Another state has been entered, which has the edits up to this one.
  mutating func enter(_ entered: State, edit: Int) {
    waiting.removeAll { $0.number <= edit }
    value = entered
    for (_, change) in waiting { change(&value) }
  }
}
