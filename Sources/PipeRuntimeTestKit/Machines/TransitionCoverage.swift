import PipeRuntime

/// Counts how often a test suite takes each transition of a machine (0-switch coverage).
///
/// A transition is a pair of a state's case and an event's case for which the machine declares an
/// `On` or an `Ignore`. Several `On`s that differ only in their guards are one transition. A timer
/// of a state is also a transition, with a name such as `open on (after)`.
///
/// Pass the collector to ``XCTStateMachine``, or to the runtime of a machine with
/// `Runtime.recording(into:)`. Many tests can use one collector at the same time.
///
/// An `On` inside an `if` or a `for` may exist only for some values of a state. The collector adds
/// the transition of such an `On` as soon as the machine enters a state in which the `On` exists.
///
/// ```swift
/// let coverage = TransitionCoverage(stateMachine)
/// XCTStateMachine(stateMachine, coverage: coverage).assert(steps: steps)
/// coverage.assertComplete(except: [TransitionName("open", on: "closeButtonWasPressed")])
/// ```
///
/// If a machine is defined by a function, as a reducer, feature, model or loadable is, the
/// collector cannot read the machine's transitions. List the transitions with `expecting:`. If the
/// states are structs, the name of the state is the name of their type.
///
/// ```swift
/// let coverage = TransitionCoverage(
///   stateMachine,
///   expecting: [TransitionName("start", on: "load"), TransitionName("loading", on: "didLoad")])
/// ```
public final class TransitionCoverage<
  State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible
>: Sendable {
  private struct Tally {
    var offered = 0
    var taken = 0
  }

  private struct Record {
    /// The counts of the known transitions.
    var tallies: [TransitionName: Tally]
    /// The counts of transitions that were taken but are not among the known transitions.
    var otherCounts: [TransitionName: Int] = [:]
    /// The names of the states with at least one `On` that the collector could not read yet.
    var incompleteStates: [String]
  }

  private let machine: StateMachine<State, Event, Output>
  /// Whether the collector knows the machine's transitions, either from the machine or from the
  /// caller.
  private let areTransitionsKnown: Bool
  private let record: Locked<Record>

  /// Creates a collector for a machine. All counts are zero.
  /// - Parameter transitions: All transitions of a machine that is defined by a function. For any
  ///   other machine, further transitions that the collector cannot read from the machine.
  public init(
    _ stateMachine: StateMachine<State, Event, Output>,
    expecting transitions: [TransitionName]? = nil
  ) {
    let listing = stateMachine.transitions
    machine = stateMachine
    areTransitionsKnown = listing.isReadable || transitions != nil
    let names =
      listing.entries.map { TransitionName($0.state, on: $0.event) }
      + stateMachine.statesWithTimers.map {
        TransitionName($0, on: TransitionCounts.timerEventName)
      }
      + (transitions ?? [])
    record = Locked(
      Record(
        tallies: Dictionary(names.map { ($0, Tally()) }) { first, _ in first },
        incompleteStates: listing.isReadable ? listing.incompleteStates : []))
  }

  /// Records that the machine was offered an event.
  /// - Parameter isTaken: Whether the machine accepted the event, even if its state did not change.
  public func record(from state: State, on event: Event, isTaken: Bool) {
    recordOffer(of: event, in: state)
    if isTaken { recordTransition(on: event, in: state) }
  }

  /// Returns whether the machine ignores the event. The collector counts an ignored event as a
  /// taken transition.
  func ignores(_ event: Event, in state: State) -> Bool {
    machine.evaluate(event, in: state) == .ignored
  }

  func recordOffer(of event: Event, in state: State) {
    changeTally(event, in: state) { record, name in record.tallies[name]?.offered += 1 }
  }

  func recordTransition(on event: Event, in state: State) {
    changeTally(event, in: state) { record, name in
      if record.tallies[name] != nil {
        record.tallies[name]?.taken += 1
      } else {
        record.otherCounts[name, default: 0] += 1
      }
    }
  }

  /// Records that a timer has fired in a state.
  public func recordTimer(in state: State) {
    let name = TransitionName(
      EnumCases.name(of: state) ?? TypeName.of(State.self), on: TransitionCounts.timerEventName)
    record.withLock { record in
      if record.tallies[name] != nil {
        record.tallies[name]?.offered += 1
        record.tallies[name]?.taken += 1
      } else {
        record.otherCounts[name, default: 0] += 1
      }
    }
  }

  /// Records a step without an event, which is a step of a timer if the state has a timer.
  func recordStep(from state: State) {
    let name = TransitionName(
      EnumCases.name(of: state) ?? TypeName.of(State.self), on: TransitionCounts.timerEventName)
    if record.withLock({ $0.tallies[name] != nil }) { recordTimer(in: state) }
  }

  private func changeTally(
    _ event: Event, in state: State, _ change: (inout Record, TransitionName) -> Void
  ) {
    guard let eventName = EnumCases.name(of: event) else { return }
    let stateName = EnumCases.name(of: state) ?? TypeName.of(State.self)
    // A state is read again only if some of its `On`s could not be read before. Reading runs the
    // machine's closures, so it takes place outside the lock.
    let mayHaveMoreEvents = record.withLock { $0.incompleteStates.contains(stateName) }
    let found = mayHaveMoreEvents ? machine.events(acceptedIn: state) : []
    record.withLock { record in
      for event in found {
        let newName = TransitionName(stateName, on: event)
        record.tallies[newName] = record.tallies[newName] ?? Tally()
      }
      change(&record, TransitionName(stateName, on: eventName))
    }
  }
}

// The results of the collector.
extension TransitionCoverage {
  /// A transition with its counts.
  public struct Entry: Hashable, Sendable {
    /// The transition.
    public var name: TransitionName
    /// The number of times that the transition was taken.
    public var takenCount: Int
    /// The number of times that a guard refused the event.
    public var refusedCount: Int
  }

  /// The transitions of the machine with their counts, in the order in which the states and their
  /// events are declared.
  public var entries: [Entry] {
    record.withLock(\.tallies)
      .map { Entry(name: $0, takenCount: $1.taken, refusedCount: $1.offered - $1.taken) }
      .sorted { Self.sortKey($0.name) < Self.sortKey($1.name) }
  }

  /// The transitions that were taken, but were neither read from the machine nor listed in
  /// `expecting:`.
  public var unexpectedTransitions: [TransitionName] {
    record.withLock(\.otherCounts).keys.sorted { Self.sortKey($0) < Self.sortKey($1) }
  }

  /// Returns a key by which names are sorted in the order of their declarations. Names without a
  /// declaration come last.
  private static func sortKey(_ name: TransitionName) -> (Int, Int, String) {
    (
      EnumCases<State>.names.firstIndex(of: name.state) ?? .max,
      EnumCases<Event>.names.firstIndex(of: name.event) ?? .max, "\(name)"
    )
  }

  /// The transitions that were never taken.
  public var untakenTransitions: [TransitionName] {
    entries.filter { $0.takenCount == 0 }.map(\.name)
  }

  /// The counts as a table. Transitions that were never taken are marked `not taken`.
  public var report: String {
    let entries = entries
    let (others, incompleteStates) = record.withLock { ($0.otherCounts, $0.incompleteStates) }
    let taken = entries.count { $0.takenCount > 0 }
    var lines =
      areTransitionsKnown
      ? ["\(taken) of \(entries.count) transitions taken"]
      : ["transitions taken: \(others.count); the total is unknown"]
    let rows =
      [["state", "event", "taken", "refused", ""]]
      + entries.map {
        [
          $0.name.state, $0.name.event, "\($0.takenCount)", "\($0.refusedCount)",
          $0.takenCount == 0 ? "not taken" : "",
        ]
      }
      + unexpectedTransitions.map {
        [$0.state, $0.event, "\(others[$0] ?? 0)", "", areTransitionsKnown ? "not expected" : ""]
      }
    lines += TextTable.lines(rows, rightAligned: [2, 3]).map { "  " + $0 }
    if !incompleteStates.isEmpty {
      lines.append(
        "  Not all transitions of \(incompleteStates.joined(separator: ", ")) can be listed "
          + "before they are seen.")
    }
    return lines.joined(separator: "\n")
  }

  /// Asserts that every transition was taken. Fails if the machine has no transitions, or if an
  /// unexpected transition was taken.
  ///
  /// Also fails if one of the `exceptions` was taken or is not a transition of the machine, so that
  /// the list stays up to date.
  /// - Parameter exceptions: The transitions that do not have to be taken.
  public func assertComplete(
    except exceptions: [TransitionName] = [], fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) {
    let problems =
      areTransitionsKnown ? coverageReport.problems(except: exceptions) : unknownProblems
    guard !problems.isEmpty else { return }
    FailureReporter.fail(
      (problems + [report]).joined(separator: "\n"),
      at: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  private var coverageReport: CoverageReport<TransitionName> {
    CoverageReport(
      entries: entries.map {
        CoverageReport.Entry(
          name: $0.name, isSeen: $0.takenCount > 0,
          remark: $0.refusedCount > 0 ? " (only refused)" : "")
      }, unexpectedNames: unexpectedTransitions,
      wording: CoverageReport.Wording(
        items: "transitions", seenParticiple: "taken", expectedItem: "transition of the machine",
        advice: "Assert each transition, or list exceptions in 'except:'.",
        adviceIfEmpty: "Cover a machine that accepts events, or remove this assertion."))
  }

  private var unknownProblems: [String] {
    let seen = unexpectedTransitions
    return [
      "the transitions are unknown, because the machine is defined by a function",
      "  List them: TransitionCoverage(stateMachine, expecting: […])"
        + (seen.isEmpty ? "." : "; transitions taken:"),
    ] + seen.map { "    TransitionName(\"\($0.state)\", on: \"\($0.event)\")," }
  }
}

/// The name of a transition: the name of the state's case and the name of the event's case.
public struct TransitionName: Hashable, Sendable, CustomStringConvertible {
  /// The name of the state's case.
  public var state: String
  /// The name of the event's case.
  public var event: String

  /// Creates the name of a transition, such as `TransitionName("open", on:
  /// "closeButtonWasPressed")`.
  public init(_ state: String, on event: String) {
    self.state = state
    self.event = event
  }

  /// The name as text, such as `open on closeButtonWasPressed`.
  public var description: String { "\(state) on \(event)" }
}

/// Compares the items that a test suite should cover with the covered items, and describes the
/// differences.
struct CoverageReport<Name: Hashable & CustomStringConvertible> {
  /// An item that the suite should cover.
  struct Entry {
    var name: Name
    var isSeen: Bool
    /// A remark about the item. It is shown if the item was not covered.
    var remark = ""
  }

  /// The words that describe the items in messages.
  struct Wording {
    /// The plural noun for the items, such as `transitions`.
    var items: String
    /// The participle for a covered item, such as `taken`.
    var seenParticiple: String
    /// The noun for an item that should be covered, such as `transition of the machine`.
    var expectedItem: String
    /// The advice to show if items were not covered.
    var advice: String
    /// The advice to show if there are no items to cover.
    var adviceIfEmpty: String
  }

  var entries: [Entry]
  /// The items that were covered but not expected.
  var unexpectedNames: [Name] = []
  var wording: Wording

  /// Returns the problems to report. The list is empty if the coverage is complete.
  func problems(except exceptions: [Name]) -> [String] {
    guard !entries.isEmpty else {
      return [
        "there are no \(wording.items) to be \(wording.seenParticiple)",
        "  \(wording.adviceIfEmpty)",
      ]
    }
    let missing = entries.filter { !$0.isSeen && !exceptions.contains($0.name) }
    var lines: [String] = []
    if !missing.isEmpty {
      lines.append(
        "\(missing.count) of \(entries.count) \(wording.items) were not \(wording.seenParticiple):")
      lines += missing.map { "  \($0.name)\($0.remark)" }
      lines.append("  \(wording.advice)")
    }
    lines += listed(
      exceptions.filter { name in !entries.contains { $0.name == name } },
      "'except:' contains names that match no \(wording.expectedItem):")
    lines += listed(
      entries.filter { $0.isSeen && exceptions.contains($0.name) }.map(\.name),
      "'except:' contains \(wording.items) that were \(wording.seenParticiple):")
    lines += listed(
      unexpectedNames, "'expecting:' lacks \(wording.items) that were \(wording.seenParticiple):")
    return lines
  }

  private func listed(_ names: [Name], _ title: String) -> [String] {
    names.isEmpty ? [] : [title] + names.map { "  \($0)" }
  }
}

/// Aligns rows of text in columns.
enum TextTable {
  static func lines(_ rows: [[String]], rightAligned: Set<Int> = []) -> [String] {
    let columns = rows.map(\.count).max() ?? 0
    let widths = (0..<columns).map { column in
      rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
    }
    return rows.map { row in
      let cells = row.enumerated().map { column, cell in
        let space = String(repeating: " ", count: widths[column] - cell.count)
        return rightAligned.contains(column) ? space + cell : cell + space
      }
      let line = cells.joined(separator: "  ")
      return String(line.reversed().drop { $0 == " " }.reversed())
    }
  }
}
