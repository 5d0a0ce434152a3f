import PipeRuntime

/// Counts the transitions of a machine that a suite has covered: 0-switch coverage.
///
/// A transition is a pair of a state's case and an event's case for which the machine has an `On`,
/// whether or not the guard passes. Feed the collector from ``XCTStateMachine``, and from running
/// machines with `Runtime.recording(into:)`. Many tests may feed one collector at the same time.
///
/// If an `if` or a `for` excludes some `On`s of a state, the collector does not know their
/// transitions. It adds them when the machine first enters a state that includes these `On`s.
///
/// ```swift
/// let coverage = TransitionCoverage(stateMachine)
/// XCTStateMachine(stateMachine, coverage: coverage).assert(steps: steps)
/// coverage.assertComplete(except: [TransitionName("open", on: "closeButtonWasPressed")])
/// ```
///
/// The transitions of a machine that is defined by a function, such as a reducer, feature, model or
/// loadable, cannot be read. List them with `expecting:`. The name of a state that is a struct is
/// the name of its type.
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
    /// The counts of transitions that were taken and that are not known.
    var others: [TransitionName: Int] = [:]
    /// The states whose `On`s could not all be read.
    var incompleteStates: [String]
  }

  private let machine: StateMachine<State, Event, Output>
  /// Whether the transitions of the machine have been read or listed.
  private let areTransitionsKnown: Bool
  private let record: Locked<Record>

  /// Creates a collector for a machine, without any counts.
  /// - Parameter transitions: The transitions of a machine that is defined by a function. For any
  ///   other machine, they are added to the transitions that are read.
  public init(
    _ stateMachine: StateMachine<State, Event, Output>,
    expecting transitions: [TransitionName]? = nil
  ) {
    let listing = stateMachine.transitions
    machine = stateMachine
    areTransitionsKnown = listing.isReadable || transitions != nil
    let names =
      listing.entries.map { TransitionName($0.state, on: $0.event) } + (transitions ?? [])
    record = Locked(
      Record(
        tallies: Dictionary(names.map { ($0, Tally()) }) { first, _ in first },
        incompleteStates: listing.isReadable ? listing.incompleteStates : []))
  }

  /// Records the machine's answer to an event.
  /// - Parameter isTaken: Whether the machine accepted the event, even without a change of the
  ///   state.
  public func record(from state: State, on event: Event, isTaken: Bool) {
    offered(event, in: state)
    if isTaken { taken(event, in: state) }
  }

  func offered(_ event: Event, in state: State) {
    change(event, in: state) { record, name in record.tallies[name]?.offered += 1 }
  }

  func taken(_ event: Event, in state: State) {
    change(event, in: state) { record, name in
      if record.tallies[name] != nil {
        record.tallies[name]?.taken += 1
      } else {
        record.others[name, default: 0] += 1
      }
    }
  }

  private func change(
    _ event: Event, in state: State, _ change: (inout Record, TransitionName) -> Void
  ) {
    guard let eventName = EnumCases.name(of: event) else { return }
    let stateName = EnumCases.name(of: state) ?? TypeName.of(State.self)
    // Reads only incomplete states again. Reads outside the lock, because reading runs the
    // machine's closures.
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

// Results.
extension TransitionCoverage {
  /// One transition with its counts.
  public struct Entry: Hashable, Sendable {
    /// The transition.
    public var name: TransitionName
    /// The number of times that the transition was taken.
    public var taken: Int
    /// The number of times that a guard refused the event.
    public var refused: Int
  }

  /// All transitions of the machine, sorted by state and event in the order of declaration.
  public var entries: [Entry] {
    record.withLock(\.tallies)
      .map { Entry(name: $0, taken: $1.taken, refused: $1.offered - $1.taken) }
      .sorted { Self.order($0.name) < Self.order($1.name) }
  }

  /// The transitions that were taken, but were neither read from the machine nor listed as
  /// expected.
  public var unexpected: [TransitionName] {
    record.withLock(\.others).keys.sorted { Self.order($0) < Self.order($1) }
  }

  /// The sort key: the order of declaration, with undeclared names last.
  private static func order(_ name: TransitionName) -> (Int, Int, String) {
    (
      EnumCases<State>.names.firstIndex(of: name.state) ?? .max,
      EnumCases<Event>.names.firstIndex(of: name.event) ?? .max, "\(name)"
    )
  }

  /// The transitions that were not taken.
  public var missing: [TransitionName] { entries.filter { $0.taken == 0 }.map(\.name) }

  /// The counts as a table, in which missing transitions are marked.
  public var report: String {
    let entries = entries
    let (others, incompleteStates) = record.withLock { ($0.others, $0.incompleteStates) }
    let taken = entries.count { $0.taken > 0 }
    var lines =
      areTransitionsKnown
      ? ["\(taken) of \(entries.count) transitions taken"]
      : ["transitions taken: \(others.count); the total is unknown"]
    let rows =
      [["state", "event", "taken", "refused", ""]]
      + entries.map {
        [
          $0.name.state, $0.name.event, "\($0.taken)", "\($0.refused)",
          $0.taken == 0 ? "not taken" : "",
        ]
      }
      + unexpected.map {
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

  /// Asserts that every transition was taken. A machine without transitions fails the assertion.
  ///
  /// A transition that was taken and is not expected is a failure. So that the list of exceptions
  /// stays correct, an exception that was taken, or that the machine does not have, is a failure,
  /// too.
  /// - Parameter exceptions: The transitions that need not be taken.
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
          name: $0.name, isSeen: $0.taken > 0, remark: $0.refused > 0 ? " (only refused)" : "")
      }, others: unexpected,
      wording: CoverageReport.Wording(
        items: "transitions", seen: "taken", expectedItem: "transition of the machine",
        advice: "Assert each transition, or list exceptions in 'except:'.",
        adviceIfEmpty: "Cover a machine that accepts events, or remove this assertion."))
  }

  private var unknownProblems: [String] {
    let seen = unexpected
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

  /// The name as text: `open on closeButtonWasPressed`.
  public var description: String { "\(state) on \(event)" }
}

/// Compares the items that a suite should have seen with the items that it has seen, and describes
/// the failures.
struct CoverageReport<Name: Hashable & CustomStringConvertible> {
  /// An item that the suite should see.
  struct Entry {
    var name: Name
    var isSeen: Bool
    /// A remark about the item. It is shown if the suite has not seen the item.
    var remark = ""
  }

  /// The words that messages use for the items.
  struct Wording {
    /// The noun for several items: `transitions`.
    var items: String
    /// The participle for an item that was seen: `taken`.
    var seen: String
    /// The noun for an item in the list of expected items: `transition of the machine`.
    var expectedItem: String
    /// The advice if items are missing.
    var advice: String
    /// The advice if there are no items.
    var adviceIfEmpty: String
  }

  var entries: [Entry]
  /// The items that were seen although they were not expected.
  var others: [Name] = []
  var wording: Wording

  /// Returns the problems; an empty list if there are none.
  func problems(except exceptions: [Name]) -> [String] {
    guard !entries.isEmpty else {
      return ["there are no \(wording.items) to be \(wording.seen)", "  \(wording.adviceIfEmpty)"]
    }
    let missing = entries.filter { !$0.isSeen && !exceptions.contains($0.name) }
    var lines: [String] = []
    if !missing.isEmpty {
      lines.append(
        "\(missing.count) of \(entries.count) \(wording.items) were not \(wording.seen):")
      lines += missing.map { "  \($0.name)\($0.remark)" }
      lines.append("  \(wording.advice)")
    }
    lines += listed(
      exceptions.filter { name in !entries.contains { $0.name == name } },
      "'except:' contains names that match no \(wording.expectedItem):")
    lines += listed(
      entries.filter { $0.isSeen && exceptions.contains($0.name) }.map(\.name),
      "'except:' contains \(wording.items) that were \(wording.seen):")
    lines += listed(others, "'expecting:' lacks \(wording.items) that were \(wording.seen):")
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
