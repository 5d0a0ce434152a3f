import PipeRuntime

/// A page of the screen.
package enum ScreenTab: Int, CaseIterable, Hashable, Sendable {
  case all = 1
  case nodes, pipes, composites, logs, deadLetters, graph

  package var title: String {
    switch self {
    case .all: "overview"
    case .deadLetters: "dead letters"
    case .nodes, .pipes, .composites, .logs, .graph: "\(self)"
    }
  }
  package var key: Character { Character("\(rawValue)") }

  /// The lists on the page, from top to bottom.
  package var parts: [ScreenPart] {
    switch self {
    case .all: [.nodes, .pipes, .composites, .logs]
    case .nodes: [.nodes]
    case .pipes: [.pipes]
    case .composites: [.composites]
    case .logs: [.logs]
    case .deadLetters: [.deadLetters]
    case .graph: [.graph]
    }
  }
}

/// A list on a page.
package enum ScreenPart: Hashable, Sendable {
  case nodes, pipes, composites, logs, deadLetters, graph, events, history
}

/// The commands of the screen, except movements. Each command has a key and a name.
package enum ScreenCommand: Hashable, Sendable {
  case page(ScreenTab)
  case filter, sort, reverse, send, why
  case steer(NodeAction)
  case deadLetter(DeadLetterAction)
  case freeze, copy, palette, help, quit

  /// An action on a dead letter.
  package enum DeadLetterAction: String, CaseIterable, Hashable, Sendable {
    case resend, drop

    package var key: Character { self == .resend ? "R" : "D" }

    /// The meaning of the action, as the help shows it.
    package var meaning: String {
      switch self {
      case .resend: "sends the selected dead letter again"
      case .drop: "deletes the selected dead letter; asks first"
      }
    }
  }

  /// An action on a node.
  package enum NodeAction: String, CaseIterable, Hashable, Sendable {
    case restart, kill, stop, start

    package var key: Character {
      switch self {
      case .restart: "r"
      case .kill: "K"
      case .stop: "S"
      case .start: "u"
      }
    }

    /// The meaning of the action, as the help shows it.
    package var meaning: String {
      switch self {
      case .restart: "stops the node gracefully and starts it again"
      case .kill: "kills the process of the node; the restart policy applies"
      case .stop: "stops the node gracefully and keeps it stopped"
      case .start: "starts the node if it is stopped or failed"
      }
    }

    /// The consequence of the action, which is part of the prompt.
    private var consequence: String {
      switch self {
      case .restart: "Stops and starts it."
      case .kill: "Its restart policy applies."
      case .stop: "Keeps it stopped."
      case .start: "Starts it again."
      }
    }

    /// Returns the prompt that asks for confirmation. On a narrow terminal, the consequence is
    /// omitted and the name is cut.
    func prompt(for name: String, columns: Int) -> String {
      let keys = "\(key) or y confirms, other keys cancel"
      let question = "\(rawValue) '\(name)'?"
      let fullPrompt = "\(question) \(consequence) \(keys)"
      if fullPrompt.displayWidth <= columns { return fullPrompt }
      let nameWidth = columns - "\(rawValue) ''? \(keys)".displayWidth
      return "\(rawValue) '\(name.cut(to: max(1, nameWidth)))'? \(keys)"
    }
  }

  /// All commands, in the order in which the help lists them.
  package static let all: [ScreenCommand] =
    ScreenTab.allCases.map(Self.page) + [.filter, .sort, .reverse, .send, .why]
    + NodeAction.allCases.map(Self.steer) + DeadLetterAction.allCases.map(Self.deadLetter)
    + [.freeze, .copy, .palette, .help, .quit]

  /// Whether the command shows a page. The help has one line for all pages.
  var isPage: Bool { if case .page = self { true } else { false } }

  package var key: Character {
    switch self {
    case .page(let page): page.key
    case .filter: "/"
    case .sort: "o"
    case .reverse: "O"
    case .deadLetter(let action): action.key
    case .send: "s"
    case .why: "w"
    case .steer(let nodeAction): nodeAction.key
    case .freeze: " "
    case .copy: "y"
    case .palette: ":"
    case .help: "?"
    case .quit: "q"
    }
  }

  /// The name of the command, as the list of commands shows it.
  package var name: String {
    switch self {
    case .page(let page): page.title
    case .filter: "filter"
    case .sort: "sort"
    case .reverse: "reverse"
    case .deadLetter(let action): action.rawValue
    case .send: "send"
    case .why: "why"
    case .steer(let nodeAction): nodeAction.rawValue
    case .freeze: "freeze"
    case .copy: "copy"
    case .palette: "commands"
    case .help: "help"
    case .quit: "quit"
    }
  }

  /// The meaning of the command, as the help shows it.
  package var meaning: String {
    switch self {
    case .page(.all): "shows all lists"
    case .page(.graph): "draws the topology with its states and pipes"
    case .page(let page): "shows only the \(page.title)"
    case .filter: "shows only the rows that contain a text; Esc shows all rows"
    case .sort: "sorts the list by its next column, or in the order of the file"
    case .reverse: "reverses the order of the sorted list"
    case .deadLetter(let action): action.meaning
    case .send: "sends an event with a form, also through the selected pipe"
    case .why: "shows which events are enabled, and which nodes block the others"
    case .steer(let nodeAction): "\(nodeAction.meaning); asks first"
    case .freeze: "freezes the screen, or unfreezes it"
    case .copy: "copies the row to the clipboard, if the terminal supports it"
    case .palette: "lists commands and nodes to choose from"
    case .help: "shows this help"
    case .quit: "leaves the screen"
    }
  }

  /// The keys that move the selection, with their meanings, as the help shows them.
  package static let movementKeys: [(keys: String, meaning: String)] = [
    ("j k ↓ ↑", "next or previous row; PgDn, PgUp, g and G move further"),
    ("Enter", "details of the selected row"), ("Esc", "back"), ("Tab", "next list"),
  ]
}

/// A list of commands and nodes. The user filters the list by typing a part of a name.
package struct ScreenPalette: Hashable, Sendable {
  /// An entry of the list.
  package enum Choice: Hashable, Sendable {
    case command(ScreenCommand)
    case node(String)

    package var name: String {
      switch self {
      case .command(let command): command.name
      case .node(let name): name
      }
    }
  }

  /// The effect of a key on the list.
  package enum Outcome: Hashable, Sendable { case open, cancelled, chosen(Choice) }

  package private(set) var field = TerminalTextField(byteLimit: 200)
  package private(set) var selection = NamedSelection()
  private let allChoices: [Choice]

  package init(nodes: [String]) {
    allChoices =
      ScreenCommand.all.filter { $0 != .palette }.map(Choice.command) + nodes.map(Choice.node)
  }

  /// The entries whose names contain the typed text. First come names that begin with this text.
  package var choices: [Choice] {
    let text = field.text.lowercased()
    guard !text.isEmpty else { return allChoices }
    let found = allChoices.filter { $0.name.lowercased().contains(text) }
    return found.filter { $0.name.lowercased().hasPrefix(text) }
      + found.filter { !$0.name.lowercased().hasPrefix(text) }
  }

  /// Returns the identifier of an entry. It is unique among all entries.
  package static func name(of choice: Choice) -> String {
    switch choice {
    case .command(let command): "command \(command.name)"
    case .node(let name): "node \(name)"
    }
  }

  package mutating func press(_ key: Key, height: Int) -> Outcome {
    let choices = choices
    let names = choices.map(Self.name)
    switch key {
    case .escape: return .cancelled
    case .up, .down, .pageUp, .pageDown: _ = selection.press(key, in: names, height: height)
    case .enter:
      guard let row = selection.selectedRow(in: names) else { return .cancelled }
      return .chosen(choices[row])
    default:
      let before = field.text
      _ = field.press(key)
      // Selects the first entry, which matches best.
      if field.text != before { selection = NamedSelection() }
    }
    return .open
  }
}
