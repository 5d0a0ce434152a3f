import PipeSupport

/// The most that a state of a node may take as JSON.
package enum StateSizeLimit {
  /// Unit: bytes.
  package static let byteCount = 1 << 20

  /// Why a step is refused that leads to a larger state.
  static let wording =
    "it leads to a state of more than 1 MiB as JSON, the most that a node may have"
}

/// A transition that has returned, and whose step is refused all the same.
struct RefusedStep: Error {
  let refusal: Refusal
}

/// Measures states, and refuses those that are too large.
///
/// To write each state as JSON would cost more than most steps. So a state is measured at each step while
/// states are small or near the limit, and in between as often as the growth seen so far asks for. A node finds
/// what that misses when it records the state: then its next process takes the steps again, with each measured.
package final class StateMeter<State: DSLCompatible & Codable & Sendable>: @unchecked Sendable {
  private struct Content {
    /// What the last measured state takes. Unit: bytes.
    var size = 0
    /// The growth in a step since the measure before that, at most as far as is known. Unit: bytes.
    var growth = 0
    /// The steps since then.
    var unmeasured = 0
  }

  /// One state in so many bytes of the last one is measured.
  private static var bytesPerStep: Int { 4_096 }
  private let codec: EventCodec<State>
  private let content = Locked(Content())
  private let limit: Int
  /// Whether each state is measured.
  package let isExact: Bool

  package init(
    limit: Int = StateSizeLimit.byteCount, isSynthesized: Bool = false, isExact: Bool = false
  ) {
    self.limit = limit
    self.isExact = isExact
    codec = EventCodec(isSynthesized: isSynthesized)
  }

  /// Whether a machine may go to a state. From one that is too large already, which an earlier version of this
  /// library has let it go to, it may go to any that is not larger.
  package func admits(_ next: State, from state: State) -> Bool {
    content.withLock { content in
      guard isExact || isDue(&content) else { return true }
      guard let size = size(of: next) else { return true }
      if size <= limit {
        content.growth = max(0, size - content.size) / max(1, content.unmeasured)
        (content.size, content.unmeasured) = (size, 0)
        return true
      }
      guard let former = self.size(of: state), former > limit, size <= former else { return false }
      (content.size, content.unmeasured) = (size, 0)
      return true
    }
  }

  /// Whether a state may be shown that a transition goes through.
  package func fits(_ state: State) -> Bool {
    _isPOD(State.self) || content.withLock { _ in size(of: state) ?? 0 } <= limit
  }

  /// What a state takes as JSON; `nil` for one that has none. Unit: bytes.
  private func size(of state: State) -> Int? { try? codec.encode(state).count }

  private func isDue(_ content: inout Content) -> Bool {
    content.unmeasured += 1
    let size = content.size
    if size > limit / 2 || content.unmeasured > size / Self.bytesPerStep { return true }
    // Twice as often as steps like the largest one would ask for.
    return content.unmeasured * content.growth * 2 >= limit - size
  }
}

extension StateMachine where State: Codable & Sendable {
  /// The machine with all steps refused that lead to too large a state.
  package func refusing(by meter: StateMeter<State>) -> Self {
    // Of values without references the type tells how large they can be.
    guard !_isPOD(State.self) else { return self }
    var machine = self
    machine.step = { [step] state, event in
      switch step(state, event) {
      case .next(let next):
        return meter.admits(next, from: state) ? .next(next) : .refused(.stateTooLarge)
      case .suspended(let transition):
        return .suspended(
          SuspendedTransition(within: transition.limit) {
            let next = try await transition()
            guard meter.admits(next, from: state) else {
              throw RefusedStep(refusal: .stateTooLarge)
            }
            return next
          })
      case .refused(let refusal): return .refused(refusal)
      }
    }
    return machine
  }

  /// Why the machine cannot run as a node, where its initial state is too large.
  package func problem(withInitial state: JSONValue) -> String? {
    guard !_isPOD(State.self) else { return nil }
    let size = state.bytes.count
    guard size > StateSizeLimit.byteCount else { return nil }
    return "its initial state has \(size) bytes as JSON; the limit is \(StateSizeLimit.byteCount)"
  }
}
