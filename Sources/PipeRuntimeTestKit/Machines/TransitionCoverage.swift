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
///
/// The transitions of a machine that is given by a function, as reducers, features, models and loadables
/// are, cannot be read. Give them with `expecting:`; a state that is a struct is called by its type's name.
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
    var given = 0
    var taken = 0
  }

  private struct Record {
    /// Of the transitions that there are.
    var tallies: [TransitionName: Tally]
    /// Of those that are not known to be, and were taken.
    var others: [TransitionName: Int] = [:]
    /// Whose `On`s could not all be read.
    var openStates: [String]
  }

  private let machine: StateMachine<State, Event, Output>
  /// Whether the transitions that there are have been read or given.
  private let isKnown: Bool
  private let record: Locked<Record>

  /// Makes a collector for a machine, of which nothing is taken yet.
  /// - Parameter transitions: Those of a machine that is given by a function. Of any other they are added
  ///   to what is read.
  public init(
    _ stateMachine: StateMachine<State, Event, Output>,
    expecting transitions: [TransitionName]? = nil
  ) {
    let listing = stateMachine.transitions
    machine = stateMachine
    isKnown = listing.isRead || transitions != nil
    let names =
      listing.entries.map { TransitionName($0.state, on: $0.event) } + (transitions ?? [])
    record = Locked(
      Record(
        tallies: Dictionary(names.map { ($0, Tally()) }) { first, _ in first },
        openStates: listing.isRead ? listing.openStates : []))
  }

  /// Counts one answer of the machine.
  /// - Parameter isTaken: Whether the event has led to a state, the same one included.
  public func record(from state: State, on event: Event, isTaken: Bool) {
    given(event, in: state)
    if isTaken { taken(event, in: state) }
  }

  func given(_ event: Event, in state: State) {
    change(event, in: state) { record, name in record.tallies[name]?.given += 1 }
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
    // Only such states are read again, and outside of the lock: that runs the machine's closures.
    let isOpen = record.withLock { $0.openStates.contains(stateName) }
    let found = isOpen ? machine.events(takenIn: state) : []
    record.withLock { record in
      for event in found {
        let shown = TransitionName(stateName, on: event)
        record.tallies[shown] = record.tallies[shown] ?? Tally()
      }
      change(&record, TransitionName(stateName, on: eventName))
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
    record.withLock(\.tallies)
      .map { Entry(name: $0, taken: $1.taken, refused: $1.given - $1.taken) }
      .sorted { Self.order($0.name) < Self.order($1.name) }
  }

  /// Transitions that were taken, and are not among those that are read or expected.
  public var unexpected: [TransitionName] {
    record.withLock(\.others).keys.sorted { Self.order($0) < Self.order($1) }
  }

  /// As declared; what is not declared comes last.
  private static func order(_ name: TransitionName) -> (Int, Int, String) {
    (
      EnumCases<State>.names.firstIndex(of: name.state) ?? .max,
      EnumCases<Event>.names.firstIndex(of: name.event) ?? .max, "\(name)"
    )
  }

  /// The transitions that were not taken.
  public var missing: [TransitionName] { entries.filter { $0.taken == 0 }.map(\.name) }

  /// The counts as a table, with what was not taken marked.
  public var report: String {
    let entries = entries
    let (others, openStates) = record.withLock { ($0.others, $0.openStates) }
    let taken = entries.count { $0.taken > 0 }
    var lines =
      isKnown
      ? ["\(taken) of \(entries.count) transitions taken"]
      : ["\(others.count) transitions taken; how many there are is not known"]
    let rows =
      [["state", "event", "taken", "refused", ""]]
      + entries.map {
        [
          $0.name.state, $0.name.event, "\($0.taken)", "\($0.refused)",
          $0.taken == 0 ? "not taken" : "",
        ]
      }
      + unexpected.map {
        [$0.state, $0.event, "\(others[$0] ?? 0)", "", isKnown ? "not expected" : ""]
      }
    lines += TextTable.lines(rows, rightAligned: [2, 3]).map { "  " + $0 }
    if !openStates.isEmpty {
      lines.append(
        "  Not all transitions of \(openStates.joined(separator: ", ")) can be listed "
          + "before they are seen.")
    }
    return lines.joined(separator: "\n")
  }

  /// Asserts that every transition was taken. Where there is none, that is a failure.
  /// - Parameter exceptions: Those that need not be. One that was taken all the same, or that the
  ///   machine does not have, is a failure too, so that the list stays true; so is a transition that was
  ///   taken and is not among those expected.
  public func assertComplete(
    except exceptions: [TransitionName] = [], fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) {
    let problems = isKnown ? account.problems(except: exceptions) : unknownProblems
    guard !problems.isEmpty else { return }
    FailureReporter.fail(
      (problems + [report]).joined(separator: "\n"),
      at: SourcePlace(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  private var account: CoverageAccount<TransitionName> {
    CoverageAccount(
      entries: entries.map {
        CoverageAccount.Entry(
          name: $0.name, isSeen: $0.taken > 0, remark: $0.refused > 0 ? " (only refused)" : "")
      }, others: unexpected,
      words: CoverageAccount.Words(
        things: "transitions", seen: "taken", thingOfOwner: "transition of the machine",
        advice: "Assert each, or name those that need not be in 'except:'.",
        adviceWithoutAny: "Cover a machine that takes events, or leave this assertion out."))
  }

  private var unknownProblems: [String] {
    let seen = unexpected
    return [
      "which transitions there are cannot be read: the machine is given by a function",
      "  Give them: TransitionCoverage(stateMachine, expecting: […])"
        + (seen.isEmpty ? "." : ". Those that were taken:"),
    ] + seen.map { "    TransitionName(\"\($0.state)\", on: \"\($0.event)\")," }
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

/// What a suite was to see and what it has seen: which of that is a failure, in words.
struct CoverageAccount<Name: Hashable & CustomStringConvertible> {
  /// One thing that can be seen.
  struct Entry {
    var name: Name
    var isSeen: Bool
    /// Said of it where it is missing.
    var remark = ""
  }

  /// How they are called.
  struct Words {
    /// `transitions`
    var things: String
    /// `taken`
    var seen: String
    /// `transition of the machine`
    var thingOfOwner: String
    /// What to do about those that are missing.
    var advice: String
    /// What to do where nothing was to be seen.
    var adviceWithoutAny: String
  }

  var entries: [Entry]
  /// What was seen, and is nothing of what was to be seen.
  var others: [Name] = []
  var words: Words

  /// What is wrong; nothing where the account is complete.
  func problems(except exceptions: [Name]) -> [String] {
    guard !entries.isEmpty else {
      return ["there are no \(words.things) to be \(words.seen)", "  \(words.adviceWithoutAny)"]
    }
    let missing = entries.filter { !$0.isSeen && !exceptions.contains($0.name) }
    var lines: [String] = []
    if !missing.isEmpty {
      lines.append("\(missing.count) of \(entries.count) \(words.things) were not \(words.seen):")
      lines += missing.map { "  \($0.name)\($0.remark)" }
      lines.append("  \(words.advice)")
    }
    lines += listed(
      exceptions.filter { name in !entries.contains { $0.name == name } },
      "'except:' names what is no \(words.thingOfOwner):")
    lines += listed(
      entries.filter { $0.isSeen && exceptions.contains($0.name) }.map(\.name),
      "'except:' names what was \(words.seen):")
    lines += listed(others, "'expecting:' lacks what was \(words.seen):")
    return lines
  }

  private func listed(_ names: [Name], _ title: String) -> [String] {
    names.isEmpty ? [] : [title] + names.map { "  \($0)" }
  }
}

/// Lays out rows in columns.
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
