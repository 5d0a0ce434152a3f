import PipeRuntime

/// Counts which transitions of a machine a suite has taken: 0-switch coverage.
///
/// A transition is a pair of a state's case and an event's case for which the machine has an `On`,
/// whatever its guard says. Feed it from ``XCTStateMachine``, and from running machines with
/// `Runtime.recording(into:)`; one collector may be fed by many tests at once.
///
/// Where an `if` or a `for` hides some `On`s of a state, its transitions count from the first time
/// that a state is seen in which they show.
///
/// ```swift
/// let coverage = TransitionCoverage(stateMachine)
/// XCTStateMachine(stateMachine, coverage: coverage).assert(steps: steps)
/// coverage.assertComplete(except: [TransitionName("open", on: "closeButtonWasPressed")])
/// ```
public final class TransitionCoverage<
  State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible
>: Sendable {
  private struct Tally {
    var given = 0
    var taken = 0
  }

  private struct Record {
    var tallies: [TransitionName: Tally]
    /// Whose `On`s could not all be read.
    var openStates: [String]
  }

  private let machine: StateMachine<State, Event, Output>
  private let record: Locked<Record>

  /// Makes a collector for a machine, of which nothing is taken yet.
  public init(_ stateMachine: StateMachine<State, Event, Output>) {
    let listing = stateMachine.transitions
    machine = stateMachine
    record = Locked(
      Record(
        tallies: Dictionary(
          uniqueKeysWithValues: listing.entries.map {
            (TransitionName($0.state, on: $0.event), Tally())
          }),
        openStates: listing.openStates))
  }

  /// Counts one answer of the machine.
  /// - Parameter isTaken: Whether the event has led to a state, the same one included.
  public func record(from state: State, on event: Event, isTaken: Bool) {
    given(event, in: state)
    if isTaken { taken(event, in: state) }
  }

  func given(_ event: Event, in state: State) {
    change(event, in: state) { $0.given += 1 }
  }

  func taken(_ event: Event, in state: State) {
    change(event, in: state) { $0.taken += 1 }
  }

  private func change(_ event: Event, in state: State, _ change: (inout Tally) -> Void) {
    guard let stateName = EnumCases.name(of: state), let eventName = EnumCases.name(of: event)
    else { return }
    let name = TransitionName(stateName, on: eventName)
    // Only such states are read again, and outside of the lock: that runs the machine's closures.
    let isOpen = record.withLock { $0.openStates.contains(stateName) }
    let found = isOpen ? machine.events(takenIn: state) : []
    record.withLock { record in
      for event in found {
        let shown = TransitionName(stateName, on: event)
        record.tallies[shown] = record.tallies[shown] ?? Tally()
      }
      // An event for which the state has no `On` is no transition.
      if var tally = record.tallies[name] {
        change(&tally)
        record.tallies[name] = tally
      }
    }
  }
}

// Looking at it.
extension TransitionCoverage {
  /// One transition, and how often it was taken.
  public struct Entry: Hashable, Sendable {
    /// The transition.
    public var name: TransitionName
    /// How often its event led to a state.
    public var taken: Int
    /// How often a guard refused its event.
    public var refused: Int
  }

  /// Every transition of the machine, by state and event as declared.
  public var entries: [Entry] {
    let states = EnumCases<State>.names
    let events = EnumCases<Event>.names
    let tallies = record.withLock(\.tallies)
    return states.flatMap { state in
      events.compactMap { event in
        let name = TransitionName(state, on: event)
        return tallies[name].map {
          Entry(name: name, taken: $0.taken, refused: $0.given - $0.taken)
        }
      }
    }
  }

  /// The transitions that were not taken.
  public var missing: [TransitionName] { entries.filter { $0.taken == 0 }.map(\.name) }

  /// The counts as a table, with what was not taken marked.
  public var report: String {
    let entries = entries
    let taken = entries.count { $0.taken > 0 }
    var lines = ["\(taken) of \(entries.count) transitions taken"]
    let rows =
      [["state", "event", "taken", "refused", ""]]
      + entries.map {
        [
          $0.name.state, $0.name.event, "\($0.taken)", "\($0.refused)",
          $0.taken == 0 ? "not taken" : "",
        ]
      }
    lines += TextTable.lines(rows, rightAligned: [2, 3]).map { "  " + $0 }
    let openStates = record.withLock(\.openStates)
    if !openStates.isEmpty {
      lines.append(
        "  Not all transitions of \(openStates.joined(separator: ", ")) can be listed "
          + "before they are seen.")
    }
    return lines.joined(separator: "\n")
  }

  /// Asserts that every transition was taken.
  /// - Parameter exceptions: Those that need not be. One that was taken all the same, or that the
  ///   machine does not have, is a failure too, so that the list stays true.
  public func assertComplete(
    except exceptions: [TransitionName] = [], fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) {
    let entries = entries
    let missing = entries.filter { $0.taken == 0 && !exceptions.contains($0.name) }
    let unknown = exceptions.filter { name in !entries.contains { $0.name == name } }
    let needless = entries.filter { $0.taken > 0 && exceptions.contains($0.name) }
    var lines: [String] = []
    if !missing.isEmpty {
      lines.append("\(missing.count) of \(entries.count) transitions were not taken:")
      lines += missing.map { "  \($0.name)" + ($0.refused > 0 ? " (only refused)" : "") }
      lines.append("  Assert each, or name those that need not be in 'except:'.")
    }
    if !unknown.isEmpty {
      lines.append("'except:' names what is no transition of the machine:")
      lines += unknown.map { "  \($0)" }
    }
    if !needless.isEmpty {
      lines.append("'except:' names what was taken:")
      lines += needless.map { "  \($0.name)" }
    }
    guard !lines.isEmpty else { return }
    FailureReporter.fail(
      (lines + [report]).joined(separator: "\n"),
      at: SourcePlace(fileID: fileID, filePath: filePath, line: line, column: column))
  }
}

/// A transition by the names of its cases.
public struct TransitionName: Hashable, Sendable, CustomStringConvertible {
  /// The name of the state's case.
  public var state: String
  /// The name of the event's case.
  public var event: String

  /// Names a transition, such as `TransitionName("open", on: "closeButtonWasPressed")`.
  public init(_ state: String, on event: String) {
    self.state = state
    self.event = event
  }

  /// `open on closeButtonWasPressed`.
  public var description: String { "\(state) on \(event)" }
}
