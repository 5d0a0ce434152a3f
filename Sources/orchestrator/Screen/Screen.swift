import PipeDiagrams
import PipeClient
import PipeRuntime
import PipeSupervision

/// The contents of the terminal UI, and the effects of its keys, without access to the terminal or
/// the topology.
package struct Screen: Sendable {
  /// An input of the screen.
  package enum Input: Sendable {
    case directory(TopologyDirectory)
    /// The orchestrator does not answer.
    case noAnswer(reason: String)
    case change(StateChange)
    case step(NodeStep)
    case logs([LogEntry])
    case answer(Response)
    case key(Key)
    case resize(TerminalSize)
    /// Some time has passed.
    case tick
  }

  /// A request to the topology.
  package enum Request: Hashable, Sendable {
    case enabled(of: String)
    case chart(of: String)
    case alphabet(of: String)
    case why(String)
    case send(JSONValue, to: String)
    case steer(ScreenCommand.NodeAction, String)
    case deadLetters(of: [String])
    case deadLetter(ScreenCommand.DeadLetterAction, id: UInt64, of: String)
    case wiring
  }

  /// The outcome of a request.
  package enum Response: Sendable {
    case enabled(of: String, ScreenData.QueryResult<EnabledEvents>)
    case chart(of: String, ScreenData.QueryResult<StateChart>)
    case alphabet(of: String, ScreenData.QueryResult<[CaseDescription]>)
    case why(String, ScreenData.QueryResult<[String]>)
    case deadLetters([String: ScreenData.QueryResult<[DeadLetter]>])
    case wiring(ScreenData.QueryResult<Wiring>)
    case done(String)
    case failed(String)
  }

  /// An action that the shell must perform.
  package enum Action: Hashable, Sendable {
    case draw
    case ask(Request)
    /// Follow the steps of this node only. If `nil`, follow no node.
    case follow(String?)
    case copy(String)
    case suspend
    case leave
  }

  /// The node or pipe that a page is about.
  package enum Subject: Hashable, Sendable {
    case node(String)
    case pipe(String)
  }

  /// An action that the user must confirm.
  package enum Confirmation: Hashable, Sendable {
    case steer(ScreenCommand.NodeAction, String)
    case drop(id: UInt64, of: String)
    case leave
  }

  /// An element over the page, which receives the keys while it is shown.
  package enum Overlay: Sendable {
    case help
    case text(title: String, lines: [String], first: Int)
    case form(SendForm)
    case palette(ScreenPalette)
    case filter(TerminalTextField)
    case confirmation(Confirmation)
  }

  /// A list on the page.
  package struct LaidOutList: Sendable {
    package var part: ScreenPart
    package var list: ScreenList
    /// The number of lines, including the heading.
    package var height: Int
  }

  /// A message on the bottom line.
  package struct Notice: Hashable, Sendable {
    package var text: String
    package var isProblem: Bool
  }

  /// Whether the topology ends when the user leaves the screen.
  package let endsTopology: Bool
  package private(set) var data: ScreenData
  /// The data that a frozen screen keeps showing; `nil` if the screen is not frozen.
  package internal(set) var frozenData: ScreenData?
  package private(set) var size: TerminalSize
  package internal(set) var page = ScreenTab.all
  package internal(set) var subject: Subject?
  /// The filter of each page. The key `nil` stands for the page about a node or a pipe, while this
  /// page is open.
  private var filters: [ScreenTab?: String] = [:]
  package internal(set) var overlay: Overlay?
  package internal(set) var notice: Notice?
  /// The list that receives the keys.
  package internal(set) var focus = ScreenPart.nodes
  /// The list that had the focus before the page about a node or a pipe was opened.
  var previousFocus = ScreenPart.nodes
  /// The lists on the page, according to the last layout.
  package internal(set) var lists: [LaidOutList] = []
  var selections: [ScreenPart: NamedSelection] = [:]
  /// The form to open when its target's alphabet has arrived. If `event` is `nil`, the user selects
  /// the event.
  var pendingForm: (target: String, event: String?)?
  var pendingWhyNode: String?
  private var lastRequests: [String: (time: Int64, version: UInt64?)] = [:]
  /// The nodes with a pending request for their enabled events.
  private var pendingRequests: Set<String> = []
  var requestedCharts: Set<String> = []
  /// The orders of the lists that the user has sorted.
  package internal(set) var orders: [ScreenPart: ScreenOrder] = [:]
  /// The last request for dead letters: its time, and the numbers of dead letters at that time.
  private var deadLetterRequest: (time: Int64, counts: [String: UInt64])?
  private var isRequestingDeadLetters = false
  /// The names of the nodes and pipes for which the wiring was requested.
  private var requestedWiring: [String]?
  /// The last drawing of the graph, with the time and the width for which it was made.
  var drawing: (time: Int64, columns: Int, list: ScreenList)?

  /// The minimum time between two requests for the events of the same node. Unit: nanoseconds.
  private static let minimumRequestInterval: Int64 = 250_000_000
  /// The age at which enabled events are requested again, even if nothing has changed. Unit:
  /// nanoseconds.
  private static let enabledEventsLifetime: Int64 = 1_000_000_000

  /// - Parameter nodes: The nodes to show; all nodes if the list is empty.
  package init(
    size: TerminalSize, nodes: [String] = [], endsTopology: Bool = false, startedAt: Int64? = nil
  ) {
    self.size = size
    self.endsTopology = endsTopology
    data = ScreenData(of: nodes)
    data.startedAt = startedAt
  }

  /// The data that the screen shows: the current data or, if the screen is frozen, the data at the
  /// time of freezing.
  package var shownData: ScreenData { frozenData ?? data }

  /// The text that all shown rows must contain. Each page has its own filter.
  package internal(set) var filter: String {
    get { filters[subject == nil ? page : nil] ?? "" }
    set { filters[subject == nil ? page : nil] = newValue }
  }

  // MARK: Handling of inputs

  /// Processes an input, and returns the actions that result.
  /// - Parameter now: The time in nanoseconds since 1970.
  package mutating func take(_ input: Input, at now: Int64) -> [Action] {
    data.now = now
    var actions: [Action] = [.draw]
    switch input {
    case .directory(let directory): data.take(directory)
    case .noAnswer(let text): data.noAnswerReason = text
    case .change(let change):
      data.take(change)
      // Changes may be frequent. Only a change of the node that the page is about can require a new
      // request.
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
    return actions + dueRequests()
  }

  /// Lays out the current contents, and returns all lines of the terminal.
  package mutating func frame() -> [StyledLine] {
    layOut()
    return lines
  }

  private mutating func take(_ answer: Response) {
    switch answer {
    case .enabled(let name, let found):
      pendingRequests.remove(name)
      data.enabledEventsByNode[name] = found
    case .chart(let name, let found): data.chartsByNode[name] = found
    case .deadLetters(let found):
      isRequestingDeadLetters = false
      data.deadLetters = found
    case .wiring(let found):
      data.wiring = found
      drawing = nil
    case .alphabet(let name, let found):
      guard let pending = pendingForm, pending.target == name, overlay == nil else { return }
      pendingForm = nil
      switch found {
      case .found(let events) where events.isEmpty:
        notice = Notice(text: "'\(name)' accepts no events", isProblem: true)
      case .found(let events):
        notice = nil
        let form = SendForm(to: name, events: events, event: pending.event)
        overlay = .form(form)
      case .failed(let reason): notice = Notice(text: reason, isProblem: true)
      }
    case .why(let name, let found):
      guard pendingWhyNode == name, overlay == nil else { return }
      pendingWhyNode = nil
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

  /// Returns the requests for enabled events that are due now.
  private mutating func dueRequests() -> [Action] {
    guard frozenData == nil, data.noAnswerReason == nil, data.directory != nil else { return [] }
    if let action = dueListRequest() { return [action] }
    var names: [String] = []
    if case .node(let name) = subject {
      names = [name]
    } else if parts.contains(.composites), pendingRequests.isEmpty {
      // Only one of these requests is sent at a time, because there may be many composites.
      names = data.nodes.filter { $0.kind == .composite }.map(\.name)
    }
    let dueNodes = names.filter { name in
      if pendingRequests.contains(name) { return false }
      guard let node = data.node(name), node.kind == .machine || node.kind == .composite else {
        return false
      }
      guard let last = lastRequests[name] else { return true }
      let age = data.now - last.time
      return age >= Self.enabledEventsLifetime
        || subject != nil && age >= Self.minimumRequestInterval
          && node.status?.version != last.version
    }
    guard let name = dueNodes.min(by: { lastRequests[$0]?.time ?? 0 < lastRequests[$1]?.time ?? 0 })
    else { return [] }
    lastRequests[name] = (data.now, data.node(name)?.status?.version)
    pendingRequests.insert(name)
    return [.ask(.enabled(of: name))]
  }

  /// Returns the request for the dead letters or for the graph on the page; `nil` if no request is
  /// due now.
  private mutating func dueListRequest() -> Action? {
    if parts.contains(.deadLetters), !isRequestingDeadLetters {
      let counts = data.deadLetterCounts
      let isDue =
        deadLetterRequest.map {
          $0.counts != counts || data.now - $0.time >= 2 * Self.enabledEventsLifetime
        } ?? true
      guard isDue, !counts.isEmpty else { return nil }
      deadLetterRequest = (data.now, counts)
      isRequestingDeadLetters = true
      return .ask(.deadLetters(of: counts.keys.sorted()))
    }
    if parts.contains(.graph), let directory = data.directory {
      let names = directory.nodes.map(\.name) + directory.pipes.map(\.name)
      guard requestedWiring != names else { return nil }
      requestedWiring = names
      return .ask(.wiring)
    }
    return nil
  }
}
