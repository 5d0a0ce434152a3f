import PipeRuntime

/// What came of the last quiz, on a terminal.
package enum ResultsView: TerminalView {
  package static let minimumSize = TerminalSize(columns: 40, rows: 3)

  package static func body(_ state: QuizResults.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .waiting: [StyledLine("No quiz has been played yet", .dim)]
    case .scoring(let sheet):
      [StyledLine(sheet.title, .bold), StyledLine("The answers are being counted…", .dim)]
    case .scored(let score):
      [
        StyledLine(score.title, .bold),
        StyledLine("\(score.right) of \(score.questions) answers are right", .color(.green)),
      ]
    case .failed(let message):
      [StyledLine("They could not be counted", .bold, .color(.red)), StyledLine(message)]
    }
  }
}
