import PipeRuntime

/// A vending machine on a terminal.
package enum VendingView: TerminalView {
  package static let minimumSize = TerminalSize(columns: 24, rows: 3)

  package static func body(_ state: VendingMachine.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .idle: [StyledLine("insert a coin", .dim)]
    case .coins: [StyledLine("weighing the coin…", .color(.yellow))]
    case .waitingChoice: [StyledLine("choose", .bold), StyledLine("or insert another coin", .dim)]
    case .dropping: [StyledLine("dropping…", .color(.green))]
    }
  }
}

/// Its user on a terminal: t has him think of something else.
package enum VendingUserView: TerminalView {
  package static let minimumSize = TerminalSize(columns: 28, rows: 3)

  package static func body(_ state: VendingUser.State, size: TerminalSize) -> [StyledLine] {
    let steps: [(VendingUser.State, String)] = [
      (.idle, "looks"), (.gonnaBuy, "takes a coin"), (.paying, "pays"), (.choosing, "chooses"),
      (.waiting, "waits for the goods"),
    ]
    let now = steps.first { $0.0 == state }?.1 ?? ""
    return [StyledLine(now, .bold), "", StyledLine("t thinks of something else", .dim)]
  }

  package static func event(for key: Key, in state: VendingUser.State) -> VendingUser.Event? {
    key == .character("t") && state == .idle ? .tau : nil
  }
}
