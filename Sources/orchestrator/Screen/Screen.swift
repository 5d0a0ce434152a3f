import PipeDiagrams
import PipeClient
import PipeRuntime
import PipeSupervision

/// What a person at a terminal sees of a topology, and what their keys do: all but the terminal and the topology.
package struct Screen: Sendable {
  /// Something that has come in.
  package enum Input: Sendable {
    case directory(TopologyDirectory)
    /// The orchestrator does not answer.
    case silence(String)
    case change(StateChange)
    case step(NodeStep)
    case logs([LogEntry])
    case answer(Answer)
    case key(Key)
    case resize(TerminalSize)
    /// Time has passed.
    case tick
  }

  /// What the topology is asked.
  package enum Question: Hashable, Sendable {
    case enabled(of: String)
    case chart(of: String)
    case alphabet(of: String)
    case why(String)
    case send(JSONValue, to: String)
    case steer(ScreenCommand.Steering, String)
  }

  /// What has become of a question.
  package enum Answer: Sendable {
    case enabled(of: String, ScreenData.Finding<EnabledEvents>)
    case chart(of: String, ScreenData.Finding<StateChart>)
    case alphabet(of: String, ScreenData.Finding<[CaseDescription]>)
    case why(String, ScreenData.Finding<[String]>)
    case done(String)
    case failed(String)
  }

  /// What is to be done.
  package enum Action: Hashable, Sendable {
    case draw
    case ask(Question)
    /// The steps of this node are wanted from now on, and of no other.
    case follow(String?)
    case copy(String)
    case suspend
    case leave
  }

  /// What a page is about, beside the lists of all.
  package enum Subject: Hashable, Sendable {
    case node(String)
    case pipe(String)
  }

  /// What is asked before it is done.
  package enum Doubt: Hashable, Sendable {
    case steer(ScreenCommand.Steering, String)
    case leave
  }

  /// What keys go to in place of the page.
  package enum Overlay: Sendable {
    case help
    case text(title: String, lines: [String], first: Int)
    case form(SendForm)
    case palette(ScreenPalette)
    case filter(TerminalTextField)
    case doubt(Doubt)
  }

  /// A list on the page.
  package struct ShownList: Sendable {
    package var part: ScreenPart
    package var list: ScreenList
    /// Its lines, the heading among them.
    package var height: Int
  }

  /// What is said at the bottom.
  package struct Notice: Hashable, Sendable {
    package var text: String
    package var isProblem: Bool
  }

  /// Whether the topology ends with the screen.
  package let endsTopology: Bool
  package private(set) var data: ScreenData
  /// What is shown while the screen stands still.
  package internal(set) var frozen: ScreenData?
  package private(set) var size: TerminalSize
  package internal(set) var page = ScreenPage.all
  package internal(set) var subject: Subject?
  /// Of each page, what its rows are to have; and of a page about one thing, as long as it is open.
  private var filters: [ScreenPage?: String] = [:]
  package internal(set) var overlay: Overlay?
  package internal(set) var notice: Notice?
  /// The list that keys go to.
  package internal(set) var focus = ScreenPart.nodes
  /// The one that they went to before a page about one thing was opened.
  var focusBefore = ScreenPart.nodes
  /// What stands on the page, as it was laid out last.
  package internal(set) var lists: [ShownList] = []
  var selections: [ScreenPart: NamedSelection] = [:]
  /// The event that a form is for once its alphabet is there; `.some(nil)`: any event.
  var awaitedForm: (target: String, event: String?)?
  var awaitedText: String?
  private var asked: [String: (time: Int64, version: UInt64?)] = [:]
  /// Of whom it is asked now which events they take.
  private var underWay: Set<String> = []
  var askedCharts: Set<String> = []

  /// The least time between two questions about the same events. Unit: nanoseconds.
  private static let pause: Int64 = 250_000_000
  /// How long what is enabled counts as known while nothing changes. Unit: nanoseconds.
  private static let validity: Int64 = 1_000_000_000

  /// - Parameter nodes: Those that are shown; all where there are none.
  package init(
    size: TerminalSize, nodes: [String] = [], endsTopology: Bool = false, startedAt: Int64? = nil
  ) {
    self.size = size
    self.endsTopology = endsTopology
    data = ScreenData(of: nodes)
    data.startedAt = startedAt
  }

  /// What is seen: as it is, or as it was when the screen was told to stand still.
  package var shown: ScreenData { frozen ?? data }

  /// What the rows that are shown are to have: each page has its own.
  package internal(set) var filter: String {
    get { filters[subject == nil ? page : nil] ?? "" }
    set { filters[subject == nil ? page : nil] = newValue }
  }

  // MARK: Inputs

  /// - Parameter now: Unit: nanoseconds since 1970.
  package mutating func take(_ input: Input, at now: Int64) -> [Action] {
    data.now = now
    var actions: [Action] = [.draw]
    switch input {
    case .directory(let directory): data.take(directory)
    case .silence(let text): data.silence = text
    case .change(let change):
      data.take(change)
      // There may be many, and of most of them nothing is to be asked.
      guard subject == .node(change.node) else { return actions }
    case .step(let step):
      data.take(step)
      return actions
    case .logs(let entries): data.take(entries)
    case .answer(let answer): take(answer)
    case .key(let key):
      layOut()
      actions += press(key)
    case .resize(let size): self.size = size
    case .tick: break
    }
    return actions + questions()
  }

  /// All lines of the terminal, as they are to be seen now.
  package mutating func frame() -> [StyledLine] {
    layOut()
    return lines
  }

  private mutating func take(_ answer: Answer) {
    switch answer {
    case .enabled(let name, let found):
      underWay.remove(name)
      data.enabled[name] = found
    case .chart(let name, let found): data.charts[name] = found
    case .alphabet(let name, let found):
      guard let awaited = awaitedForm, awaited.target == name, overlay == nil else { return }
      awaitedForm = nil
      switch found {
      case .found(let events) where events.isEmpty:
        notice = Notice(text: "'\(name)' takes no events", isProblem: true)
      case .found(let events):
        notice = nil
        let form = SendForm(to: name, events: events, event: awaited.event)
        overlay = .form(form)
      case .failed(let reason): notice = Notice(text: reason, isProblem: true)
      }
    case .why(let name, let found):
      guard awaitedText == name, overlay == nil else { return }
      awaitedText = nil
      switch found {
      case .found(let lines):
        notice = nil
        overlay = .text(title: "why \(name)", lines: lines, first: 0)
      case .failed(let reason): notice = Notice(text: reason, isProblem: true)
      }
    case .done(let text): notice = Notice(text: text, isProblem: false)
    case .failed(let text): notice = Notice(text: text, isProblem: true)
    }
  }

  /// What is to be asked now about the events that are shown.
  private mutating func questions() -> [Action] {
    guard frozen == nil, data.silence == nil, data.directory != nil else { return [] }
    var names: [String] = []
    if case .node(let name) = subject {
      names = [name]
    } else if parts.contains(.composites), underWay.isEmpty {
      // One after another: there may be many.
      names = data.nodes.filter { $0.kind == .composite }.map(\.name)
    }
    let due = names.filter { name in
      if underWay.contains(name) { return false }
      guard let node = data.node(name), node.kind == .machine || node.kind == .composite else {
        return false
      }
      guard let last = asked[name] else { return true }
      let age = data.now - last.time
      return age >= Self.validity
        || subject != nil && age >= Self.pause && node.status?.version != last.version
    }
    guard let name = due.min(by: { asked[$0]?.time ?? 0 < asked[$1]?.time ?? 0 }) else { return [] }
    asked[name] = (data.now, data.node(name)?.status?.version)
    underWay.insert(name)
    return [.ask(.enabled(of: name))]
  }
}
