import PipeRuntime

/// A list of commands and nodes, of which one is found by typing a part of its name.
package struct ScreenPalette: Hashable, Sendable {
  /// What can be chosen.
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

  /// What a key has led to.
  package enum Outcome: Hashable, Sendable { case open, left, chosen(Choice) }

  package private(set) var field = TerminalTextField(byteLimit: 200)
  package private(set) var selection = NamedSelection()
  private let all: [Choice]

  package init(nodes: [String]) {
    all =
      ScreenCommand.all.filter { $0 != .palette }.map(Choice.command) + nodes.map(Choice.node)
  }

  /// Those whose names have what was typed, those first whose names begin with it.
  package var choices: [Choice] {
    let text = field.text.lowercased()
    guard !text.isEmpty else { return all }
    let found = all.filter { $0.name.lowercased().contains(text) }
    return found.filter { $0.name.lowercased().hasPrefix(text) }
      + found.filter { !$0.name.lowercased().hasPrefix(text) }
  }

  /// Unique among the choices.
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
    case .escape: return .left
    case .up, .down, .pageUp, .pageDown: _ = selection.press(key, in: names, height: height)
    case .enter:
      guard let row = selection.row(in: names) else { return .left }
      return .chosen(choices[row])
    default:
      let before = field.text
      _ = field.press(key)
      // The best match is selected, whatever was before.
      if field.text != before { selection = NamedSelection() }
    }
    return .open
  }
}
