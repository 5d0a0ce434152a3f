import PipeSupport

/// The maximum size of a node's state as JSON.
package enum StateSizeLimit {
  /// The limit. Unit: bytes.
  package static let maximumByteCount = 1 << 20

  /// The reason for refusing a step to a state that exceeds the limit.
  static let wording =
    "the transition leads to a state of more than 1 MiB as JSON, the limit for a node"
}

/// The error of an asynchronous transition whose next state the machine refuses.
struct RefusedStep: Error {
  let refusal: Refusal
}

/// A meter that measures states, and refuses states that are too large.
///
/// Encoding each state as JSON would cost more than most steps. The meter therefore measures every
/// state only while states are small. It measures larger states less often, depending on how fast
/// they grow and on how far they are from the limit. If the meter has missed a state that is too
/// large, the node detects the error when it records the state. The node's next process then takes
/// the last steps again, and measures the state after each step.
package final class StateMeter<State: DSLCompatible & Codable & Sendable>: @unchecked Sendable {
  private struct Content {
    /// The size of the last measured state. Unit: bytes.
    var size = 0
    /// The average growth per step between the last two measurements, never negative. Unit: bytes.
    var growth = 0
    /// The number of steps since the last measurement.
    var unmeasured = 0

    /// Records the size of the state after the last step.
    mutating func note(_ size: Int) {
      growth = max(0, size - self.size) / max(1, unmeasured)
      (self.size, unmeasured) = (size, 0)
    }
  }

  /// The interval between measurements. After a measured state of n bytes, the next n /
  /// `bytesPerStep` steps are not measured, unless the state could soon reach the limit. Unit:
  /// bytes per step.
  private static var bytesPerStep: Int { 4_096 }
  /// The minimum growth per step that is assumed for states larger than half of the limit. Unit:
  /// bytes.
  private static var assumedGrowth: Int { 4_096 }
  private let codec: EventCodec<State>
  private let content = Locked(Content())
  private let maximumByteCount: Int
  /// Whether the meter measures every state, even while states are large.
  package let isExact: Bool

  package init(
    limit: Int = StateSizeLimit.maximumByteCount, isSynthesized: Bool = false, isExact: Bool = false
  ) {
    self.maximumByteCount = limit
    self.isExact = isExact
    codec = EventCodec(isSynthesized: isSynthesized)
  }

  /// Returns whether a machine is allowed to change from `state` to `next`. Also `true` if `next`
  /// is not measured. If `state` is itself too large, because an earlier version of this library
  /// allowed that, `next` must not be larger than `state`.
  package func admits(_ next: State, from state: State) -> Bool {
    content.withLock { content in
      guard isExact || isMeasurementDue(&content) else { return true }
      guard let size = size(of: next) else { return true }
      if size <= maximumByteCount {
        content.note(size)
        return true
      }
      guard let former = self.size(of: state), former > maximumByteCount, size <= former else {
        return false
      }
      (content.size, content.unmeasured) = (size, 0)
      return true
    }
  }

  /// Records the size of the current state, which the caller has encoded for another purpose.
  package func recordMeasurement(byteCount: Int) {
    guard !_isPOD(State.self) else { return }
    content.withLock { if $0.unmeasured > 0 { $0.note(byteCount) } }
  }

  /// Returns whether an intermediate state of a transition is small enough to be published.
  package func fits(_ state: State) -> Bool {
    _isPOD(State.self) || content.withLock { _ in size(of: state) ?? 0 } <= maximumByteCount
  }

  /// Returns the size of a state as JSON; `nil` if the state cannot be encoded. Unit: bytes.
  private func size(of state: State) -> Int? { try? codec.encode(state).count }

  private func isMeasurementDue(_ content: inout Content) -> Bool {
    content.unmeasured += 1
    let size = content.size
    if content.unmeasured > size / Self.bytesPerStep { return true }
    // Assumes twice the measured growth, as a safety margin.
    let growth = max(2 * content.growth, size > maximumByteCount / 2 ? Self.assumedGrowth : 0)
    return content.unmeasured * growth >= maximumByteCount - size
  }
}

extension StateMachine where State: Codable & Sendable {
  /// Returns a copy of the machine that refuses each step to a state that is too large.
  package func refusing(by meter: StateMeter<State>) -> Self {
    // A type without references has a fixed size in memory, which limits the size of its JSON. So
    // the states of such a type need not be measured.
    guard !_isPOD(State.self) else { return self }
    var machine = self
    machine.step = { [step] state, event in
      switch step(state, event) {
      case .next(let next):
        return meter.admits(next, from: state) ? .next(next) : .refused(.stateTooLarge)
      case .stays(let next):
        return meter.admits(next, from: state) ? .stays(next) : .refused(.stateTooLarge)
      case .ignored: return .ignored
      case .suspended(let transition):
        return .suspended(
          SuspendedTransition(
            within: transition.limit,
            target: {
              let target = try await transition.target()
              guard meter.admits(target.state, from: state) else {
                throw RefusedStep(refusal: .stateTooLarge)
              }
              return target
            }))
      case .refused(let refusal): return .refused(refusal)
      }
    }
    machine.admitsTimerTransition = { meter.admits($0, from: $1) }
    return machine
  }

  /// Returns the reason why the initial state is too large for a node; `nil` if it is small enough.
  package func problem(withInitial state: JSONValue) -> String? {
    guard !_isPOD(State.self) else { return nil }
    let size = state.bytes.count
    guard size > StateSizeLimit.maximumByteCount else { return nil }
    return
      "the initial state has \(size) bytes as JSON; the limit is \(StateSizeLimit.maximumByteCount)"
  }
}
