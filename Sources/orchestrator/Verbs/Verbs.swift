/// Every verb, in the order of the help page.
package enum Verbs {
  package static let all: [any Verb] = [
    Check(), Run(), Up(), Down(), List(), Processes(), Status(), Start(), Stop(), Restart(), Kill(),
    Send(), Wait(), Logs(), Watch(), Describe(), Config(), Schema(), Completion(), ShowVersion(),
    Help(),
  ]

  package static var descriptions: [VerbDescription] { all.map(\.description) }
}

extension CommandError {
  /// For the verbs whose sockets are not there yet.
  static func notWired(_ verb: any Verb) -> CommandError {
    CommandError("'\(verb.description.name)' is not wired yet")
  }
}
